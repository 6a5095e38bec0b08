"""The TLS of one listener: its files, and what is made of them anew when they change.

Files are PEM. A certificate that is renewed is taken up for the next connections, and those that are open go
on. Files that can't be used leave what there was, and the log says so: a renewal that is half written must
not end a listener.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from springtide.node.clock import Clock
from springtide.node.kernel_tls import OP_ENABLE_KTLS, OPENSSL_VERSION_MIN
from springtide.node.threads import Threads
from springtide.tls import TlsFilesInvalid, load_ca, load_cert

_log = logging.getLogger(__name__)

LOOK_MS: Final = 5_000
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_VERSIONS: Final = tuple(_VERSIONS)
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
"""Kafka's values of ssl.client.auth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """keystore: the private key and the certificate with its chain. truststore: CAs of those who connect
    here, and of those that this process connects to. verifies_names: whether a server must have the name
    that it was reached by."""

    keystore: str
    truststore: str | None
    client_auth: str
    protocols: tuple[str, ...] = TLS_VERSIONS
    verifies_names: bool = True

    @property
    def paths(self) -> Iterator[str]:
        yield self.keystore
        if self.truststore is not None:
            yield self.truststore


class TlsMaterial:
    """server: for those who connect here. client: to connect to the same listener of other processes.
    not_after_ms: when the certificate ends, Unix time."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raise TlsFilesInvalid."""
        self.files = files
        self._seen = _signature(files)
        self.server, self.client, self.not_after_ms = _load(files)

    def refresh(self) -> bool:
        """Read the files if they have changed since they were read last; return whether they were taken up.
        Raise TlsFilesInvalid: what there was goes on."""
        seen = _signature(self.files)
        if seen == self._seen:
            return False
        self._seen = seen
        self.server, self.client, self.not_after_ms = _load(self.files)
        return True


async def keep_fresh(materials: Mapping[str, TlsMaterial], clock: Clock, threads: Threads) -> None:
    """Look at the files every few seconds, until cancelled."""
    while materials:
        await clock.sleep_ms(LOOK_MS)
        for name, material in materials.items():
            try:
                if await threads.run(material.refresh):
                    _log.info("certificate_renewed listener=%s file=%s", name, material.files.keystore)
            except TlsFilesInvalid as error:
                _log.error(
                    "certificate_not_renewed listener=%s cause=%s consequence=%s",
                    name,
                    error,
                    "the one before stays in use",
                )


def _load(files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext, int]:
    """Raise TlsFilesInvalid, also if a file goes while it is read."""
    try:
        return _contexts(files)
    except (OSError, ValueError) as error:
        raise TlsFilesInvalid(f"{' and '.join(files.paths)}: {error}") from error


def _contexts(files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext, int]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = CLIENT_AUTH[files.client_auth]
    if ssl.OPENSSL_VERSION_INFO >= OPENSSL_VERSION_MIN:
        server.options |= OP_ENABLE_KTLS  # without effect where OpenSSL does not write to the socket itself
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = files.verifies_names
    for context in (server, client):
        context.minimum_version = min(_VERSIONS[name] for name in files.protocols)
        context.maximum_version = max(_VERSIONS[name] for name in files.protocols)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        load_cert(context, files.keystore, files.keystore)
        if files.truststore is not None:
            load_ca(context, files.truststore)
    if files.truststore is None:
        client.load_default_certs()
    from cryptography import x509  # noqa: PLC0415 - 8 MB of memory, which only TLS needs

    leaf = x509.load_pem_x509_certificates(Path(files.keystore).read_bytes())[0]
    return server, client, int(leaf.not_valid_after_utc.timestamp() * 1000)


def _signature(files: TlsFiles) -> tuple[tuple[int, ...] | None, ...]:
    """Return what changes when one of the files does, or who may read it. A secret that is mounted is
    replaced by a link."""

    def of(path: str) -> tuple[int, ...] | None:
        try:
            found = Path(path).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_uid, found.st_gid

    return tuple(of(path) for path in files.paths)
