"""Where the live endpoint listens: what `--listen` and tic.toml may say, and what it means on this machine.

    auto          the address by which other machines reach this one
    HOST          a name or address of this machine, any free port; also HOST:PORT and [V6]:PORT
    (nothing)     127.0.0.1

What is not loopback is served with TLS (live_tls.py).
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from dataclasses import dataclass, replace

from tic_daemon.errors import ConfigError

log = logging.getLogger("tic_daemon.live")

AUTO = "auto"
LOOPBACK = "127.0.0.1"
# Addresses for documentation: nobody's. Connecting a UDP socket sends nothing, and tells which address would be used.
_SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


@dataclass(frozen=True, slots=True)
class Listen:
    """What was asked for. `host` is AUTO, a name, or an address without brackets; port 0 lets the system choose."""

    host: str = LOOPBACK
    port: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What it means here.

    Attributes:
        address: IP address to bind. family: AF_INET or AF_INET6.
        shown: host of the URL by which others reach it: a name or an address.
        names: all names and addresses that a client may call it by.
    """

    address: str
    family: socket.AddressFamily
    shown: str
    names: frozenset[str]

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address.partition("%")[0]).is_loopback

    def url(self, port: int) -> str:
        """Where it answers."""
        host = f"[{self.shown}]" if ":" in self.shown else self.shown
        return f"{'http' if self.loopback else 'https'}://{host}:{port}"


def parse(text: str) -> Listen:
    """`text` of --listen. Raises ConfigError."""
    match = re.fullmatch(
        r"\[([^\[\]]+)\](?::(\d{1,5}))?|([^\[\]:]+)(?::(\d{1,5}))?|([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)", text
    )
    hint = "write auto, HOST, HOST:PORT or [V6-ADDRESS]:PORT"
    if match is None:
        raise ConfigError(f"cannot listen on {text!r}: not an address", hint)
    host, port = match[1] or match[3] or match[5], int(match[2] or match[4] or 0)
    if port > 65535:
        raise ConfigError(f"cannot listen on {text!r}: there is no port {port}", hint)
    if match[1] or match[5]:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ConfigError(f"cannot listen on {text!r}: not an IPv6 address", hint) from None
    elif not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", host):
        raise ConfigError(f"cannot listen on {text!r}: not a host name", hint)
    return Listen(host, port)


def with_port(listen: Listen, port: int) -> Listen:
    """`listen` with the port of --port, if that says one. Raises ConfigError: both say another."""
    if port and listen.port and port != listen.port:
        raise ConfigError(f"two ports: {listen.port} and {port}", "give one of them")
    return replace(listen, port=port or listen.port)


def locate(listen: Listen) -> Place:
    """What was asked for, on this machine.

    Raises:
        ConfigError: the name is none, or none of this machine's that can be looked up.
    """
    if listen.host == AUTO:
        address = own_address()
        if address is None:
            log.warning("no address by which others reach this machine was found: the endpoint is on loopback only")
            address = LOOPBACK
        return _place(address, address)
    try:
        found = socket.getaddrinfo(listen.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {listen.host}: {why}", "name this machine, one of its addresses, or auto"
        ) from error
    address = str(found[0][4][0])
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return _place(address, own_address() or socket.gethostname())
    return _place(address, listen.host)


def own_address() -> str | None:
    """The address by which other machines reach this one: by the routes, else what its name says; None if neither."""
    for family, somewhere in _SOMEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((somewhere, 9))
                address = str(probe.getsockname()[0])
        except OSError:
            continue
        if _reachable(address):
            return address
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return None
    return next((address for address in found if _reachable(address)), None)


def _reachable(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    return not (ip.is_loopback or ip.is_unspecified or ip.is_link_local)


def _place(address: str, shown: str) -> Place:
    own, shown = socket.gethostname().lower(), shown.lower()
    ip = ipaddress.ip_address(address.partition("%")[0])
    names = {"localhost", LOOPBACK, "::1", own, shown}
    if not ip.is_loopback:
        names.add(socket.getfqdn(own).lower())
    if not ip.is_unspecified:
        names.add(str(ip))
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    return Place(address, family, shown, frozenset(names))
