"""The endpoint's certificate: made at start, signed by itself, told in daemon.json; its key never lies on a disk.

Readers compare the certificate itself (store/http_link.py), so it need not come from anybody. It names all names and
addresses of the endpoint for those clients that look at them.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

LIFETIME = timedelta(days=3650)
"""It lives as long as the daemon, whose clock may be wrong; what it is worth is its digest."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key, as PEM."""

    pem: str
    key: bytes

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of its DER form."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.pem)).hexdigest()

    @property
    def pin(self) -> str:
        """Base64 digest of its public key, as `curl --pinnedpubkey` wants it: sha256//..."""
        from base64 import b64encode  # noqa: PLC0415  only with TLS

        from cryptography import x509  # noqa: PLC0415  only with TLS
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only with TLS

        public = x509.load_pem_x509_certificate(self.pem.encode()).public_key()
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return "sha256//" + b64encode(hashlib.sha256(der).digest()).decode()


def make(names: Iterable[str]) -> Certificate:
    """A new certificate for these DNS names and IP addresses; those that no certificate can hold are left out."""
    from cryptography import x509  # noqa: PLC0415  only with TLS
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415  only with TLS
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  only with TLS
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415  only with TLS

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tic-daemon")])
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(list(_names(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    made = builder.sign(key, hashes.SHA256())
    return Certificate(
        made.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def context(certificate: Certificate) -> ssl.SSLContext:
    """The server's side of TLS."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    with _as_file(certificate.key + certificate.pem.encode()) as path:
        made.load_cert_chain(path)
    return made


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path that OpenSSL can read, since it takes no bytes: memory if the system can, else a private file for the
    moment."""
    descriptor = os.memfd_create("tic")
    try:
        os.write(descriptor, data)
        path = f"/proc/self/fd/{descriptor}"
        if os.access(path, os.R_OK):
            yield path
            return
    finally:
        os.close(descriptor)
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(data)
        file.flush()
        yield file.name


def _names(names: Iterable[str]) -> Iterator[x509.GeneralName]:
    from cryptography import x509  # noqa: PLC0415  only with TLS

    for name in sorted(names):
        try:
            yield x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            with contextlib.suppress(ValueError):  # no ASCII
                yield x509.DNSName(name)
