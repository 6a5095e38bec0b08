"""The names in a client's certificate, which the server has verified against `--client-ca`.

They are its subject alternative names: hosts, addresses, mail addresses, URIs. A certificate without any is
known by its subject's common name (RFC 9525 has servers do without it, but many CAs name people only there).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: ASGI scope key of the names; absent without a certificate.
CERTIFICATE_SCOPE_KEY: Final = "springtide.certificate_names"
_KINDS: Final = frozenset({"DNS", "IP Address", "email", "URI"})


def certificate_names(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names, in lower case. certificate: as `ssl.SSLSocket.getpeercert` describes it."""
    alternatives = [name for kind, name in certificate.get("subjectAltName", ()) if kind in _KINDS]
    if not alternatives:
        parts = (part for relative in certificate.get("subject", ()) for part in relative)
        alternatives = [name for kind, name in parts if kind == "commonName"]
    return tuple(dict.fromkeys(name.lower() for name in alternatives))
