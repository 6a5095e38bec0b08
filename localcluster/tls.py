"""The TLS of a cluster of `up --secure`: a CA of its own, and one certificate for all that runs here.

clients --SSL--> CLIENTS     brokers, coordinators, controllers --SSL with certificates--> INTERNAL
operators, brokers, coordinators --HTTPS--> controllers
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from springtide.certificates import create_certificates
from springtide.tls import client_context

HOST = "localhost"
DAYS = 30


class ClusterTls:
    """directory: where the files are, or will be. context: what an HTTP client of the controllers trusts."""

    def __init__(self, directory: Path) -> None:
        for _ in create_certificates(directory, [HOST], days=DAYS, now=datetime.now(UTC)):
            pass
        self.ca = directory / "ca.pem"
        self._keystore = directory / f"{HOST}.pem"
        self.context = client_context(ca=str(self.ca), cert=None, key=None)

    @property
    def controller_flags(self) -> Sequence[str]:
        cert = str(self._keystore)
        return (
            *("--tls-cert", cert, "--tls-key", cert),
            *("--kafka-ca", str(self.ca), "--kafka-client-cert", cert, "--kafka-client-key", cert),
        )

    def node_flags(self, address: str, *, port: int, peers_port: int) -> Sequence[str]:
        configs = {
            "listeners": f"CLIENTS://{address}:{port},INTERNAL://{address}:{peers_port}",
            "listener.security.protocol.map": "CLIENTS:SSL,INTERNAL:SSL",
            "inter.broker.listener.name": "INTERNAL",
            "listener.name.internal.ssl.client.auth": "required",
            "ssl.keystore.location": str(self._keystore),
            "ssl.truststore.location": str(self.ca),
        }
        flags = (flag for key, value in configs.items() for flag in ("--config", f"{key}={value}"))
        return ("--controller-ca", str(self.ca), *flags)
