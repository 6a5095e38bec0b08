"""The users of a cluster of `up --secure`, their ACLs, and the files that they log in with; and the tokens
of its controllers.

operator  a super user: everything
alice     writes and reads topics whose names begin with `orders`, in groups whose names begin so
viewer    sees topics, groups and settings, and reads no record

Passwords and tokens are made at the first start and stay. They are in files only, which no other user of this
machine can read: not on the screen, and not in an argument.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.rest import ControllerApi, Json

OPERATOR, ALICE, VIEWER = "operator", "alice", "viewer"
OWN = "orders"
"""The names of alice's topics and groups begin so."""
MECHANISM = "SCRAM-SHA-512"
LOGIN = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"}
"""The settings of the listener. PLAIN is for clients that have nothing else."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class RestTokens:
    """The tokens of controllers: the operator's, with the role admin, and that of brokers and coordinators.
    directory: where the files are, or will be."""

    def __init__(self, directory: Path) -> None:
        self._all, self._nodes = directory / "tokens", directory / "broker-token"
        #: For springtide --token-file, and for a person who signs in on the page.
        self.operator = directory / "operator-token"
        #: For curl -H @FILE.
        self.header = directory / "curl-header"
        if not self._all.exists():
            operator, nodes = secrets.token_hex(24), secrets.token_hex(24)
            _write_secret(self.operator, f"{operator}\n")
            _write_secret(self.header, f"Authorization: Bearer {operator}\n")
            _write_secret(self._nodes, f"{nodes}\n")
            _write_secret(self._all, f"{OPERATOR} admin {operator}\nbrokers broker {nodes}\n")

    @property
    def controller_flags(self) -> Sequence[str]:
        return ("--tokens-file", str(self._all))

    @property
    def node_flags(self) -> Sequence[str]:
        return ("--controller-token-file", str(self._nodes))

    def read(self) -> str:
        """Return the operator's."""
        return self.operator.read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """The settings of a client that logs in as one user: librdkafka's (kcat -F) and Java's."""

    librdkafka: Path
    java: Path

    @property
    def settings(self) -> dict[str, str]:
        """Return what a client of librdkafka takes."""
        lines = self.librdkafka.read_text(encoding="utf-8").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}


@dataclass(frozen=True, slots=True)
class Access:
    """directory: of the files. ca: the certificate that clients trust."""

    directory: Path
    bootstrap_servers: str
    ca: Path

    def give(self, api: ControllerApi, cluster: str) -> dict[str, ClientFiles]:
        """Create the users and their ACLs, and let ACLs decide from now on. Return each user's files."""
        files = {user: self.add_user(api, cluster, user) for user in (OPERATOR, ALICE, VIEWER)}
        api.post(f"/clusters/{cluster}/acls", {"bindings": bindings()})
        configs = {"authorizer.class.name": AUTHORIZER, "super.users": f"User:{OPERATOR}"}
        api.post(f"/clusters/{cluster}/configs:alter", {"configs": configs})
        return files

    def add_user(self, api: ControllerApi, cluster: str, user: str) -> ClientFiles:
        """Create the user, or set the password that its files have; write the files."""
        files = ClientFiles(self.directory / f"{user}.conf", self.directory / f"{user}.properties")
        known = files.settings if files.librdkafka.exists() else {}
        password = known.get("sasl.password") or secrets.token_urlsafe(18)
        api.put(f"/clusters/{cluster}/users/{user}", {"password": password})
        self.write(files, user, password)
        return files

    def write(self, files: ClientFiles, user: str, password: str) -> None:
        """Write the files of a user whose password has changed."""
        common = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": "SASL_SSL"}
        login = {"sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": password}
        _write_secret(files.librdkafka, _lines(common | {"ssl.ca.location": str(self.ca)} | login))
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        java = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }
        _write_secret(files.java, _lines(common | java))


def bindings() -> list[Json]:
    """Return the ACLs of alice and the viewer, as `POST /clusters/{c}/acls` takes them."""
    return [
        *_allow(ALICE, ("read", "write"), "topic", OWN, "prefixed"),
        *_allow(ALICE, ("read",), "group", OWN, "prefixed"),
        *_allow(VIEWER, ("describe", "describe_configs"), "topic", "*"),
        *_allow(VIEWER, ("describe",), "group", "*"),
        *_allow(VIEWER, ("describe", "describe_configs"), "cluster", "kafka-cluster"),
    ]


def _allow(
    user: str, operations: Sequence[str], resource_type: str, name: str, pattern_type: str = "literal"
) -> list[Json]:
    about = {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type}
    return [{**about, "principal": f"User:{user}", "operation": operation} for operation in operations]


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write_secret(file: Path, text: str) -> None:
    """Replace the file whole. No other user can read it, at any moment."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text, encoding="utf-8")
    new.replace(file)
