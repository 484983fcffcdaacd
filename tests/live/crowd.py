"""A crowd that means no good: garbage, wrong tokens, endless queries, clients that vanish, that do not read, that drip.

    python -m tests.live.crowd URL TOKEN SECONDS [CERTIFICATE]

prints one line of JSON at the end: how often each of them came.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

ENDLESS = "SELECT count(*) FROM range(10000000000) t1, range(100000) t2"
LARGE = "SELECT repeat('x', 1000) AS t FROM range(50000)"


class Target:
    """Where the endpoint is, and the token: the crowd knows it, as nothing else would get far."""

    def __init__(self, url: str, token: str, certificate: str = "") -> None:
        parts = urlsplit(url)
        self.host, self.port, self.token = parts.hostname or "", parts.port or 0, token
        self.context = None
        if parts.scheme == "https":
            self.context = ssl.create_default_context(cadata=certificate)
            self.context.check_hostname = False

    def connect(self, timeout: float = 10.0) -> socket.socket:
        sock = socket.create_connection((self.host, self.port), timeout=timeout)
        return self.context.wrap_socket(sock) if self.context else sock

    def head(self, method: str, path: str, more: str = "", token: str | None = None) -> bytes:
        given = self.token if token is None else token
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {given}\r\n{more}\r\n".encode()

    def sql(self, sql: str, timeout_s: float = 1.0, token: str | None = None) -> bytes:
        body = json.dumps({"sql": sql, "timeout_s": timeout_s}).encode()
        return self.head("POST", "/sql", f"Content-Length: {len(body)}\r\n", token) + body


def garbage(rng: random.Random, target: Target) -> bytes:
    """One connection's worth of nonsense: raw bytes, or a request with something wrong somewhere."""
    basic = base64.b64encode(f"x:{target.token}".encode()).decode()
    good = rng.choice(
        [
            target.sql("SELECT 1"),
            target.head("GET", "/tail?wait=0&limit=3"),
            target.head("HEAD", "/view/runs.parquet"),
            target.head("GET", "/view/runs.parquet?columns=run_id", "Range: bytes=0-3\r\n"),
            f"GET /view/runs.parquet?limit=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {basic}\r\n\r\n".encode(),
        ]
    )
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    if kind == 1:
        return good[: rng.randrange(len(good))]
    if kind == 2:
        changed = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    if kind == 3:
        headers = [
            b"Content-Length: -1", b"Content-Length: 9" + b"9" * rng.randrange(30), b"A: " + b"x" * 40000,
            b"Transfer-Encoding: chunked", b"Range: bytes=" + rng.randbytes(20).hex().encode(), b"Expect: 100-continue",
            b"Upgrade: websocket\r\nConnection: Upgrade", b"Accept: " + bytes(range(128, 160)),
        ]  # fmt: skip
        return good.replace(b"\r\n\r\n", b"\r\n" + rng.choice(headers) + b"\r\n\r\n", 1)
    text = "".join(rng.choice("SELECT FROM()'\";*,$1?\\\0\x1b\u202eé") for _ in range(rng.randrange(200)))
    if kind == 4:
        return target.sql(text)
    quoted = "".join(rng.choice("abc=&?%\x7f/.-9") for _ in range(rng.randrange(300)))
    return target.head("GET", rng.choice(["/tail?", "/view/", "/view/runs.parquet?", "/"]) + quoted.replace(" ", ""))


def throw(target: Target, count: int, seed: int) -> None:
    """So many connections of garbage, each read to its end."""
    rng = random.Random(seed)
    for _ in range(count):
        with contextlib.suppress(OSError), target.connect(timeout=5) as sock:
            if target.context is not None and rng.randrange(4) == 0:  # nonsense where a handshake should be
                with socket.create_connection((target.host, target.port), timeout=5) as bare:
                    bare.sendall(garbage(rng, target))
                    bare.shutdown(socket.SHUT_WR)
                    while bare.recv(65536):
                        pass
                continue
            sock.sendall(garbage(rng, target))
            if target.context is None:
                sock.shutdown(socket.SHUT_WR)
            else:
                sock.settimeout(0.05)  # TLS has no half-closed connection
            while sock.recv(65536):
                pass


def main(argv: list[str]) -> int:
    """See the module."""
    certificate = Path(argv[3]).read_text() if len(argv) > 3 else ""
    target, until = Target(argv[0], argv[1], certificate), time.monotonic() + float(argv[2])
    came: Counter[str] = Counter()

    def repeat(name: str, once: Callable[[], None]) -> None:
        while time.monotonic() < until:
            try:
                once()
                came[name] += 1
            except OSError:
                came[name + ", turned away"] += 1
                time.sleep(0.01)

    def answered(request: bytes) -> None:
        with target.connect() as sock:
            sock.sendall(request)
            while sock.recv(65536):
                if b"connection: close" not in request.lower():
                    break

    def vanish() -> None:
        with target.connect() as sock:
            sock.sendall(target.sql(ENDLESS, 60))
            time.sleep(0.1)

    def doze() -> None:
        with target.connect() as sock:
            sock.sendall(target.sql(LARGE, 10))
            time.sleep(2)

    def drip() -> None:
        with target.connect() as sock:
            for byte in target.sql("SELECT 1")[:60]:
                sock.sendall(bytes([byte]))
                time.sleep(0.05)

    def wait() -> None:
        with target.connect(timeout=30) as sock:
            sock.sendall(target.head("GET", "/tail?wait=20&limit=0"))
            sock.recv(65536)
            time.sleep(0.5)

    seeds = iter(range(1000))
    crowd: list[tuple[str, Callable[[], None]]] = [
        *[("garbage", lambda: throw(target, 20, next(seeds)))] * 2,
        *[("wrong token", lambda: answered(target.sql("SELECT 1", token="wrong")))] * 2,
        *[("endless", lambda: answered(target.sql(ENDLESS, 0.5)))] * 6,
        *[("vanishes", vanish)] * 4,
        *[("does not read", doze)] * 8,
        *[("drips", drip)] * 8,
        *[("waits", wait)] * 60,
        *[("downloads", lambda: answered(target.head("GET", "/view/mismatches.parquet", "Connection: close\r\n")))] * 2,
    ]
    threads = [threading.Thread(target=repeat, args=one, daemon=True) for one in crowd]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, until - time.monotonic()))
    print(json.dumps(dict(sorted(came.items()))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
