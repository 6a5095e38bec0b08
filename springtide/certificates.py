"""`springtide certificates create`: a certificate authority and certificates for a cluster to try TLS with.

Where an organisation has a CA, its certificates are to be used. The key of this one stays in the directory:
keep it from hosts that only need a certificate.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS: Final = 3_650
EARLIER: Final = timedelta(minutes=5)
"""Certificates begin a little before now, for hosts whose clocks are behind."""
_NAME_LENGTH_MAX: Final = 64
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class CertificatesRefused(Exception):
    """The certificates can't be made; the message says why and what to do."""


def create_certificates(
    directory: Path, names: Sequence[str], *, days: int, now: datetime
) -> Iterator[tuple[Path, str]]:
    """Make a certificate for each name, and a CA at the first time; yield each file with what it is.

    Each NAME.pem has the key and the certificate, as `ssl.keystore.location` takes them; one that is there is
    replaced, which renews it. Raise CertificatesRefused, OSError."""
    for name in names:
        if not 0 < len(name) <= _NAME_LENGTH_MAX or "/" in name or name in (".", "..", "ca"):
            raise CertificatesRefused(f"{name!r} can't name a certificate: give the host's name or address")
    directory.mkdir(parents=True, exist_ok=True)
    ca_file, ca_key_file = directory / "ca.pem", directory / "ca.key"
    if ca_file.exists() != ca_key_file.exists():
        raise CertificatesRefused(f"{directory} must hold both ca.pem and ca.key, or neither")
    if ca_file.exists():
        ca, ca_key = _read_ca(ca_file, ca_key_file)
    else:
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _signed("Springtide CA", ca_key, ca=None, ca_key=ca_key, now=now, days=CA_DAYS)
        _write(ca_key_file, [_key_bytes(ca_key)])
        _write(ca_file, [ca.public_bytes(serialization.Encoding.PEM)], mode=0o644)
        yield ca_file, "the CA, for ssl.truststore.location and clients"
        yield ca_key_file, "the CA's key: keep it to yourself"
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(name, key, ca=ca, ca_key=ca_key, now=now, days=days)
        file = directory / f"{name}.pem"
        _write(file, [_key_bytes(key), certificate.public_bytes(serialization.Encoding.PEM)])
        yield file, f"key and certificate of {name}, for {days} days"


def _read_ca(file: Path, key_file: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        ca = x509.load_pem_x509_certificate(file.read_bytes())
    except (ValueError, TypeError) as error:
        raise CertificatesRefused(f"{file} and {key_file} are not a CA and its key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != ca.public_key():
        raise CertificatesRefused(f"{key_file} is not the key of {file} that this command made")
    return ca, key


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    ca: x509.Certificate | None,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.Certificate:
    """Return a certificate. ca: None makes it a CA of its own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.BasicConstraints(ca=ca is None, path_length=0 if ca is None else None), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if ca is None:
        return builder.add_extension(_usage(is_ca=True), critical=True).sign(ca_key, hashes.SHA256())
    names = _LOOPBACK if name in _LOOPBACK else (name,)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(_usage(is_ca=False), critical=True)
        .sign(ca_key, hashes.SHA256())
    )


def _alternatives(names: Iterable[str]) -> Iterator[x509.GeneralName]:
    for name in names:
        try:
            yield x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            try:
                yield x509.DNSName(name)
            except ValueError as error:
                raise CertificatesRefused(f"{name!r} is no host's name: {error}") from error


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(file: Path, parts: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Replace the file whole: a process that reads it again must not find half of it."""
    new = file.with_name(f".{file.name}.new")
    new.touch(mode=mode)
    new.chmod(mode)
    new.write_bytes(b"".join(parts))
    new.replace(file)
