"""A kept HTTP connection to a daemon that may be started anew, with another port, token and certificate.

    Address   where the daemon is, how it is recognised, and whether it was reached last time; shared by its links
    Link      one connection; requests on it run one after another

Standard library only.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tic_daemon.errors import ConnectError, StoreError, TicError
from tic_daemon.store import wire
from tic_daemon.store.layout import read_json
from tic_daemon.store.reader import Connection
from tic_daemon.store.sqlguard import SqlError, SqlRefused

# The daemon answers at its deadline; a socket that stays silent this much longer is broken.
GRACE_S = 3.0
CONNECT_S = 3.0
MAX_ERROR_BYTES = 1 << 16
# A daemon answers with 64 MB at most, and columns of one row may be larger.
MAX_BODY_BYTES = 512 << 20
BODY_S = 30.0
TOKEN_VARIABLE = "TIC_TOKEN"  # noqa: S105  a name
CERTIFICATE_VARIABLE = "TIC_CERTIFICATE"

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_BROKEN = (OSError, http.client.HTTPException)


class Interrupted(Exception):
    """`Link.interrupt` or `Link.close` was called while a request ran."""


@dataclass(frozen=True, slots=True)
class Found:
    """One way to a daemon: url, bearer token, the PEM text of the certificate that it shows ("": none is pinned)."""

    url: str
    token: str
    certificate: str = ""


class Address:
    """Where the daemon is.

    Args:
        found: how it is reached now.
        store_id: of the store that it must serve; "" accepts what answers.
        daemon_file: daemon.json, where a restarted daemon is looked up.
    """

    def __init__(self, found: Found, *, store_id: str = "", daemon_file: Path | None = None) -> None:
        self.found = found
        self.store_id = store_id
        self._daemon_file = daemon_file
        self.status = Connection("live", "pending", _now(), "", found.url)

    def moved(self, used: Found) -> bool:
        """Whether the daemon is elsewhere than what was `used`; looks into daemon.json."""
        if self._daemon_file is not None:
            found = noted(self._daemon_file)
            if found is not None and found != self.found:
                self.found = found
                self.status = replace(self.status, target=found.url)
        return self.found != used

    def lost(self, why: str, hint: str = "") -> ConnectError:
        """Notes that it cannot be reached, and gives the error to raise."""
        if self.status.state != "disconnected" or self.status.detail != why:
            self._note("disconnected", why)
        return ConnectError(f"the daemon at {self.found.url} cannot be read: {why}", hint or "is it running?")

    def reached(self) -> None:
        """Notes that it answered."""
        if self.status.state != "connected":
            self._note("connected", "")

    def _note(self, state: Literal["connected", "disconnected"], detail: str) -> None:
        since = self.status.since if state == self.status.state else _now()
        self.status = replace(self.status, state=state, since=since, detail=detail)


def noted(daemon_file: Path) -> Found | None:
    """What a daemon.json says; None if there is none, or none with a url and a token."""
    said = read_json(daemon_file)
    url, token, certificate = said.get("url"), said.get("token"), said.get("certificate", "")
    if not (isinstance(url, str) and isinstance(token, str) and isinstance(certificate, str)):
        return None
    return Found(url.rstrip("/"), token, certificate)


def named(url: str, token: str, certificate: str) -> Found:
    """A URL that a person gave. What is "" comes from the environment, so that it is in no argv.

    Raises:
        ConnectError: the certificate's file cannot be read.
    """
    path = os.environ.get(CERTIFICATE_VARIABLE, "")
    if path and not certificate and url.startswith("https:"):
        try:
            certificate = Path(path).read_text(encoding="ascii")
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or str(e)
            raise ConnectError(f"cannot read {CERTIFICATE_VARIABLE}={path}: {why}", "name a PEM file") from e
    return Found(url.rstrip("/"), token or os.environ.get(TOKEN_VARIABLE, ""), certificate)


class Link:
    """One connection, opened when it is needed and again when it breaks. `interrupt` and `close` from any thread."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._turn = threading.Lock()  # one request at a time
        self._http: http.client.HTTPConnection | None = None
        self._interrupted = False
        self._closed = False

    def ask(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[http.client.HTTPMessage, bytes, float]:
        """Sends a request; gives headers, body, and the seconds that it took.

        It is sent once more if a kept connection turns out dead or the daemon moved: it must do no harm twice.

        Raises:
            Interrupted: see there.
            SqlError, SqlRefused, StoreError: the daemon's own refusal.
            ConnectError: it cannot be reached, refuses the token, is not the one that is pinned, or serves another
                store.
        """
        with self._turn:
            self._interrupted = False
            return self._exchange(method, path, body, timeout_s)

    def interrupt(self) -> None:
        """Ends the running request: the socket is closed, and the daemon stops when it sees that."""
        self._interrupted = True
        self._hang_up()

    def close(self) -> None:
        """No more requests. Ends a running one."""
        self._closed = True
        self.interrupt()

    def _exchange(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[http.client.HTTPMessage, bytes, float]:
        address = self._address
        for attempt in (1, 2):
            if self._closed:
                raise StoreError("this reader is closed")
            kept, used = self._http is not None, address.found
            began = time.monotonic()
            try:
                response, data = self._once(used, method, path, body, timeout_s)
            except TimeoutError as e:
                self._hang_up()
                raise address.lost(f"no answer within {timeout_s + GRACE_S:g} s") from e
            except _BROKEN as e:
                self._hang_up()
                if self._interrupted:
                    raise Interrupted from e
                if attempt == 1 and (address.moved(used) or kept):
                    continue
                raise address.lost(_why(e)) from e
            except ConnectError as e:  # another certificate: of the daemon that was started anew, or a stranger's
                self._hang_up()
                if attempt == 1 and address.moved(used):
                    continue
                raise address.lost(e.what, e.hint) from e
            if response.status == 401 and attempt == 1 and address.moved(used):
                self._hang_up()
                continue
            self._check(response, data)
            address.reached()
            return response.headers, data, time.monotonic() - began
        raise address.lost("the connection broke twice")

    def _once(
        self, found: Found, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._http
        if connection is None:
            connection = _connect(found)
            self._http = connection
        assert connection.sock is not None  # noqa: S101 -- _connect opened it; only _hang_up closes, and forgets it
        connection.sock.settimeout(timeout_s + GRACE_S)
        headers = {"Authorization": f"Bearer {found.token}", "Accept": wire.ARROW_TYPE}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        if response.status == 200:
            data = _body(response, time.monotonic() + timeout_s + BODY_S)
        else:
            data = response.read(MAX_ERROR_BYTES)
        if response.will_close or response.status != 200:
            self._hang_up()
        return response, data

    def _check(self, response: http.client.HTTPResponse, data: bytes) -> None:
        status, wanted = response.status, self._address.store_id
        if status == 200:
            served = response.headers.get(wire.STORE_HEADER, "")
            if wanted and served != wanted:
                raise self._address.lost(f"another store answers there: {served[:40] or 'no tic daemon'}")
            return
        error, hint = _complaint(data, status)
        if status == 401:
            raise self._address.lost(error, hint)
        self._address.reached()  # it answered, if not what we wished
        kinds: dict[int, type[TicError]] = {400: SqlError, 408: SqlError, 413: SqlError, 403: SqlRefused}
        raise kinds.get(status, StoreError)(error, hint)

    def _hang_up(self) -> None:
        connection, self._http = self._http, None
        if connection is None:
            return
        # shutdown() wakes a thread that waits in recv(); close() alone would not.
        sock = connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        connection.close()


def _connect(found: Found) -> http.client.HTTPConnection:
    connection: http.client.HTTPConnection
    url = found.url
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as e:  # a port that is none, a bracket too few, a label too long
        raise ConnectError(f"not a URL of a daemon: {url} ({e})", "write it as http://host:port") from e
    if not host:
        raise ConnectError(f"not a URL of a daemon: {url} names no host", "write it as http://host:port")
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=_trust(found))
    elif parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=CONNECT_S)
    else:
        raise ConnectError(f"not a URL of a daemon: {url}", "write it as http://host:port")
    try:
        connection.connect()
        _require_pinned(connection.sock, found)
    except BaseException as e:
        connection.close()
        if isinstance(e, ssl.SSLCertVerificationError):
            raise _stranger(found, e.verify_message) from e
        raise
    # Small requests that wait for small answers: Nagle's algorithm would add 40 ms to some.
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _trust(found: Found) -> ssl.SSLContext:
    """Trusts the pinned certificate alone, whatever names it has; without one, what the system trusts."""
    if not found.certificate:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # a tunnel's end has another name; the certificate itself is compared
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cadata=found.certificate)
    except (ssl.SSLError, ValueError) as e:
        raise ConnectError(f"the certificate of {found.url} cannot be used: {e}", "it must be PEM text") from e
    return context


def _require_pinned(sock: socket.socket, found: Found) -> None:
    if not (found.certificate and isinstance(sock, ssl.SSLSocket)):
        return
    pinned = [ssl.PEM_cert_to_DER_cert(text) for text in _PEM.findall(found.certificate)]
    if sock.getpeercert(binary_form=True) not in pinned:
        raise _stranger(found, "it shows another one")


def _stranger(found: Found, why: str) -> ConnectError:
    if found.certificate:
        return ConnectError(
            f"what answers at {found.url} does not have the daemon's certificate: {why}",
            "it was started anew, or something else answers there: look into daemon.json",
        )
    return ConnectError(
        f"the certificate of {found.url} is not trusted: {why}",
        f"put `certificate` of its daemon.json into a file and name it in {CERTIFICATE_VARIABLE}",
    )


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The whole body. What answers may be no daemon at all: neither endless nor dripping bodies are waited for.

    Raises:
        TimeoutError: it did not end in time. ConnectError: it is larger than any answer of a daemon.
    """
    body = bytearray()
    while piece := response.read1(1 << 20):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ConnectError(f"the answer is larger than {MAX_BODY_BYTES >> 20} MB", "is it a daemon's URL?")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:  # it ended before the length that it had announced
        raise http.client.IncompleteRead(bytes(body), response.length)
    response.close()  # read1() does not notice the end of a body of known length, and the next request would fail
    return bytes(body)


def _complaint(data: bytes, status: int) -> tuple[str, str]:
    try:
        value = json.loads(data)
        return str(value["error"]), str(value.get("hint", ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"HTTP status {status}", ""


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
