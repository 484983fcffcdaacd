"""Where the endpoint listens, what it calls itself, and that nobody else is taken for it."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tic_daemon import listen, live_tls
from tic_daemon.config import parse_config
from tic_daemon.errors import ConfigError, ConnectError, TicError
from tic_daemon.listen import Listen
from tic_daemon.live import LiveServer
from tic_daemon.live_run import Limits
from tic_daemon.store.http_reader import HttpReader

from .conftest import Bed, make_engine


def outside() -> str:
    """An address of this machine that is not loopback."""
    address = listen.own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    return address


@contextlib.contextmanager
def serving(workspace: Path, where: Listen, limits: Limits | None = None) -> Iterator[LiveServer]:
    engine, layout = make_engine(workspace)
    server = LiveServer(engine.cursor, layout, listen=where, limits=limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        engine.close()


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, dict[str, str], Path]]:
    outside()
    workspace = tmp_path_factory.mktemp("tls")
    with serving(workspace, Listen("auto")) as server:
        path = next(workspace.glob(".tic/*/daemon.json"))
        yield server, json.loads(path.read_text()), path


# --- what --listen may say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("auto", "auto", 0), ("node7", "node7", 0), ("node7.cluster:8765", "node7.cluster", 8765), ("10.0.0.7", "10.0.0.7", 0),
        ("10.0.0.7:0", "10.0.0.7", 0), ("[::1]:99", "::1", 99), ("[fe80::1]", "fe80::1", 0), ("::1", "::1", 0), ("::", "::", 0),
        ("auto:8765", "auto", 8765), ("0.0.0.0:1", "0.0.0.0", 1),  # noqa: S104
    ],
)  # fmt: skip
def test_what_may_be_said(text: str, host: str, port: int) -> None:
    assert listen.parse(text) == Listen(host, port)


@pytest.mark.parametrize(
    "text", ["", ":", ":80", "a:b", "a:99999", "a:-1", "[::1", "[::1]x", "[x]:1", "a b", "a/b", "http://a", "a:1:2", "\0", "é", ":::", "a" * 300]
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        listen.parse(text)


def test_tic_toml_says_it_too_and_the_port_is_said_once(tmp_path: Path) -> None:
    config = parse_config('[endpoint]\nlisten = "auto:8765"\n', tmp_path / "tic.toml")
    assert config.endpoint.listen == Listen("auto", 8765)
    assert parse_config("", tmp_path / "tic.toml").endpoint.listen == Listen("127.0.0.1", 0)
    with pytest.raises(ConfigError, match=r"tic\.toml:2: `listen` is 'a b'"):
        parse_config('[endpoint]\nlisten = "a b"\n', tmp_path / "tic.toml")
    assert listen.with_port(Listen("auto"), 5) == Listen("auto", 5)
    with pytest.raises(ConfigError, match="two ports"):
        listen.with_port(Listen("auto", 4), 5)


def test_auto_falls_back_to_the_name_and_then_to_loopback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listen, "_SOMEWHERE", ((socket.AF_INET, "no address"),))  # as without any route
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    found = [(socket.AF_INET, 0, 0, "", (address, 0)) for address in ("127.0.1.1", "10.1.2.3")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: found)
    assert listen.own_address() == "10.1.2.3"
    found.pop()
    place = listen.locate(Listen("auto"))
    assert (place.address, place.loopback) == ("127.0.0.1", True)
    assert "on loopback only" in caplog.text


def test_a_name_or_address_that_is_not_ours_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no-such-host\.invalid"):
        listen.locate(Listen("no-such-host.invalid"))
    with (
        pytest.raises(TicError, match=r"cannot listen on 192\.0\.2\.77 port 0"),
        serving(tmp_path, Listen("192.0.2.77")),
    ):
        pass
    assert not list(tmp_path.glob(".tic/*/daemon.json"))


def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(TicError, match=f"port {port}: Address already in use"),
            serving(tmp_path, Listen(port=port)),
        ):
            pass


def test_ipv6_loopback_is_served_without_tls(tmp_path: Path) -> None:
    with serving(tmp_path, Listen("::1")) as server:
        assert server.url.startswith("http://[::1]:")
        assert HttpReader(server.url, server.token).query("SELECT 1").rows == [(1,)]


def test_all_addresses(tmp_path: Path) -> None:
    address = outside()
    with serving(tmp_path, Listen("0.0.0.0")) as server:  # noqa: S104
        told = json.loads(next(tmp_path.glob(".tic/*/daemon.json")).read_text())
        port = server.url.rpartition(":")[2]
        for host in ("127.0.0.1", address):
            reader = HttpReader(f"https://{host}:{port}", told["token"], told["certificate"])
            assert reader.query("SELECT 1").rows == [(1,)]


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_the_certificate_is_told_and_names_what_it_serves(open_server: tuple[LiveServer, dict[str, str], Path]) -> None:
    server, told, path = open_server
    assert path.stat().st_mode & 0o777 == 0o600
    assert told["url"].startswith("https://") and server.url == told["url"]
    der = ssl.PEM_cert_to_DER_cert(told["certificate"])
    assert told["certificate_sha256"] == hashlib.sha256(der).hexdigest()
    assert "PRIVATE" not in path.read_text()
    names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address(outside()) in names.get_values_for_type(x509.IPAddress)
    assert {"localhost", socket.gethostname().lower()} <= set(names.get_values_for_type(x509.DNSName))


def test_the_reader_trusts_that_certificate_alone(
    open_server: tuple[LiveServer, dict[str, str], Path], tmp_path: Path
) -> None:
    server, told, path = open_server
    assert HttpReader.of(path).query("SELECT 1").rows == [(1,)]
    other = live_tls.make({"localhost", outside()})
    wrong = HttpReader(server.url, told["token"], other.pem)
    with pytest.raises(ConnectError, match="does not have the daemon's certificate"):
        wrong.query("SELECT 1")
    assert wrong.connection().state == "disconnected"
    with pytest.raises(ConnectError, match="TIC_CERTIFICATE"):  # the system trusts no such thing
        HttpReader(server.url, told["token"]).query("SELECT 1")
    with pytest.raises(ConnectError, match="PEM"):
        HttpReader(server.url, told["token"], "no certificate").query("SELECT 1")
    with pytest.raises(ConnectError):  # plain HTTP to it
        HttpReader(server.url.replace("https", "http"), told["token"]).query("SELECT 1")


def test_what_the_pinned_certificate_vouches_for_is_not_the_daemon() -> None:
    """A chain that verifies is not enough: only the very certificate counts."""
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "authority")])
    now = datetime.now(UTC)

    def issue(subject: x509.Name, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, ca: bool) -> str:
        builder = x509.CertificateBuilder(
            name, subject, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
        )
        made = builder.add_extension(x509.BasicConstraints(ca, None), critical=True).sign(by, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM).decode()

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    pinned = issue(name, authority, authority, True)
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "daemon")])
    shown = issue(subject, own, authority, False)
    private = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = live_tls.context(live_tls.Certificate(shown, private))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                context.wrap_socket(listener.accept()[0], server_side=True).recv(1)

        threading.Thread(target=serve, daemon=True).start()
        reader = HttpReader(f"https://127.0.0.1:{listener.getsockname()[1]}", "t", pinned)
        with pytest.raises(ConnectError, match="shows another one"):
            reader.query("SELECT 1")


def test_token_and_certificate_from_the_environment(
    open_server: tuple[LiveServer, dict[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, told, _ = open_server
    file = tmp_path / "tic.pem"
    file.write_text(told["certificate"])
    monkeypatch.setenv("TIC_TOKEN", told["token"])
    monkeypatch.setenv("TIC_CERTIFICATE", str(file))
    assert HttpReader(server.url).query("SELECT 1").rows == [(1,)]
    monkeypatch.setenv("TIC_CERTIFICATE", str(tmp_path / "missing"))
    with pytest.raises(ConnectError, match="missing"):
        HttpReader(server.url)


@pytest.mark.parametrize("how", ["--cacert", "--pinnedpubkey"])
def test_curl(open_server: tuple[LiveServer, dict[str, str], Path], tmp_path: Path, how: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    server, told, _ = open_server
    file = tmp_path / "tic.pem"
    file.write_text(told["certificate"])
    trust = ["--cacert", str(file)] if how == "--cacert" else ["--insecure", "--pinnedpubkey", told["certificate_pin"]]
    done = subprocess.run(["curl", "-sS", *trust, server.url + "/health"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["ok"] is True
    if how == "--pinnedpubkey":
        wrong = [*trust[:2], "sha256//" + "A" * 43 + "="]
        done = subprocess.run(
            ["curl", "-sS", *wrong, server.url + "/health"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 90  # CURLE_SSL_PINNEDPUBKEYNOTMATCH


def test_clients_that_check_names_and_are_strict(open_server: tuple[LiveServer, dict[str, str], Path]) -> None:
    server, told, _ = open_server
    context = ssl.create_default_context(cadata=told["certificate"])
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as Python 3.13 does
    connection = http.client.HTTPSConnection(outside(), int(server.url.rpartition(":")[2]), context=context)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()


def test_old_tls_is_refused(open_server: tuple[LiveServer, dict[str, str], Path]) -> None:
    server, _, _ = open_server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((outside(), int(server.url.rpartition(":")[2]))) as sock, pytest.raises(OSError):
        context.wrap_socket(sock)


def test_those_who_never_finish_their_handshake_are_bounded_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tic_daemon import live

    monkeypatch.setattr(live, "HANDSHAKE_S", 1.0)
    address = outside()
    with serving(tmp_path, Listen("auto"), Limits(connections=8)) as server:
        port = int(server.url.rpartition(":")[2])
        before = len(list(Path("/proc/self/fd").iterdir()))
        silent = [socket.create_connection((address, port), timeout=5) for _ in range(60)]
        time.sleep(0.3)
        # 60 are ours, and of the server's ends no more than twice the limit
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 60 + 16
        reader = HttpReader.of(next(tmp_path.glob(".tic/*/daemon.json")))
        deadline = time.monotonic() + 60
        while True:
            try:
                assert reader.query("SELECT 1").rows == [(1,)]
                break
            except ConnectError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        for sock in silent:
            sock.close()


def test_a_daemon_started_anew_shows_another_certificate_and_is_found(tmp_path: Path) -> None:
    outside()
    engine, layout = make_engine(tmp_path)
    first = LiveServer(engine.cursor, layout, listen=Listen("auto"))
    first.start()
    port = int(first.url.rpartition(":")[2])
    reader = HttpReader.of(layout.daemon_file)
    assert reader.query("SELECT 1").rows == [(1,)]
    first.stop()
    second = LiveServer(engine.cursor, layout, listen=Listen("auto", port))  # the same port: another key all the same
    second.start()
    try:
        assert reader.query("SELECT 2").rows == [(2,)]
    finally:
        second.stop()
        engine.close()


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.1", "127.0.0.1.evil.example", ""])
def test_hosts_that_are_none_of_ours(open_server: tuple[LiveServer, dict[str, str], Path], host: str) -> None:
    server, told, _ = open_server
    context = ssl.create_default_context(cadata=told["certificate"])
    connection = http.client.HTTPSConnection(outside(), int(server.url.rpartition(":")[2]), context=context)
    connection.request("GET", "/health", headers={"Host": host})
    assert connection.getresponse().status in (400, 403)
    connection.close()


def test_loopback_stays_plain_and_tells_no_certificate(bed: Bed) -> None:
    told = json.loads(bed.layout.daemon_file.read_text())
    assert told["url"].startswith("http://127.0.0.1:")
    assert "certificate" not in told
