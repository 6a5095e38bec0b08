"""The TLS of a cluster of `up --secure`: a CA of its own, and one certificate for all that runs here.

clients --SSL--> CLIENTS     brokers, coordinators, controllers --SSL with certificates--> INTERNAL
clients --SASL_SSL--> SASL, where there is that listener
Prometheus --HTTPS with a certificate--> the page of metrics of brokers and coordinators
operators, brokers, coordinators --HTTPS--> controllers --TLS with certificates, a password--> ZooKeeper
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from localcluster.zookeeper import ZooKeeperServerTls
from springtide.certificates import create_certificates
from springtide.tls import client_context

HOST = "localhost"
DAYS = 30


class ClusterTls:
    """directory: where the files are, or will be. context: what an HTTP client of the controllers trusts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate(HOST)
        self.ca = directory / "ca.pem"
        self._keystore = directory / f"{HOST}.pem"
        self.context = client_context(ca=str(self.ca), cert=None, key=None)
        self._identity = directory / "zookeeper-identity"
        if not self._identity.exists():
            self._identity.touch(mode=0o600)
            self._identity.write_text(f"springtide:{secrets.token_hex(24)}\n", encoding="ascii")

    def certificate(self, name: str) -> Path:
        """Make a certificate; return the file, which has its key, too. A client that shows it on CLIENTS of a
        cluster with SASL is `User:CN=name`."""
        for _ in create_certificates(self._directory, [name], days=DAYS, now=datetime.now(UTC)):
            pass
        return self._directory / f"{name}.pem"

    @property
    def zookeeper(self) -> ZooKeeperServerTls:
        return ZooKeeperServerTls(keystore=self._keystore, truststore=self.ca, context=self.known)

    @property
    def known(self) -> ssl.SSLContext:
        """Return what a client trusts and shows that is let in where certificates are asked for."""
        cert = str(self._keystore)
        return client_context(ca=str(self.ca), cert=cert, key=cert)

    @property
    def controller_flags(self) -> Sequence[str]:
        cert = str(self._keystore)
        return (
            *("--tls-cert", cert, "--tls-key", cert),
            *("--kafka-ca", str(self.ca), "--kafka-client-cert", cert, "--kafka-client-key", cert),
            *(
                "--zookeeper-ca",
                str(self.ca),
                "--zookeeper-client-cert",
                cert,
                "--zookeeper-client-key",
                cert,
            ),
            *("--zookeeper-auth-file", str(self._identity)),
        )

    def node_flags(
        self, address: str, *, port: int, peers_port: int, sasl_port: int, sasl: Mapping[str, str] | None
    ) -> Sequence[str]:
        """Return the flags of a broker or coordinator. sasl: the settings of the listener SASL at sasl_port;
        then CLIENTS asks for certificates, too. None: clients are not known by name."""
        listeners = {"CLIENTS": ("SSL", port), "INTERNAL": ("SSL", peers_port)}
        if sasl is not None:
            listeners["SASL"] = ("SASL_SSL", sasl_port)
        configs = {
            "listeners": ",".join(f"{name}://{address}:{at}" for name, (_, at) in listeners.items()),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, (protocol, _) in listeners.items()
            ),
            "inter.broker.listener.name": "INTERNAL",
            "listener.name.clients.ssl.client.auth": "none" if sasl is None else "requested",
            "listener.name.internal.ssl.client.auth": "required",
            "metrics.security.protocol": "SSL",
            "listener.name.metrics.ssl.client.auth": "required",
            "ssl.keystore.location": str(self._keystore),
            "ssl.truststore.location": str(self.ca),
            **{f"listener.name.sasl.{key}": value for key, value in (sasl or {}).items()},
        }
        flags = (flag for key, value in configs.items() for flag in ("--config", f"{key}={value}"))
        return ("--controller-ca", str(self.ca), *flags)
