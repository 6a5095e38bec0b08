"""What a process says to one of the other release: bytes, by the sender's classes, read by the receiver's.

The messages of springtide.contract are JSON, as on the wire; one that the receiver can't read is refused
there and is as good as lost, as with the status 400 or an answer that does not parse. Rows of ZooKeeper are
what the writer's controller/shell/rows.py makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tests.simulation.network import Unreadable
from tests.simulation.releases.translation import Release, class_in, release_of, translated

CONTRACT = "springtide.contract."


def is_contract(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) and kind.__module__.removeprefix("last_").startswith(CONTRACT)


def received(message: Any, release: Release) -> Any:
    """Return the message as a process of that release reads it. Raise Unreadable if it can't."""
    kind: Any = type(message)
    if release_of(kind) is release:
        return message
    if not is_contract(kind):
        return translated(message, release, objects=True)
    try:
        return msgspec.json.decode(msgspec.json.encode(message), type=class_in(kind, release))
    except msgspec.MsgspecError as error:
        raise Unreadable(
            f"{kind.__name__} can't be read by the {release.name.lower()} release: {error}"
        ) from error


#: Rows with a number, by the simulation's keys, and their records.
_NUMBERED = {
    "cluster": "ClusterRecord",
    "level": "LevelRecord",
    "upgrade": "UpgradeRecord",
    "producer_ids": "ProducerIdsRecord",
    "topic": "TopicRecord",
    "broker": "MemberRecord",
    "coordinator": "MemberRecord",
}


class Rows:
    """What a controller of one release makes of rows, by the simulation's keys (controller_node.row_key)."""

    def __init__(self, release: Release) -> None:
        self._rows = release.module("controller.shell.rows")
        self._security = release.module("controller.shell.security_rows")
        self._records = release.module("controller.core.records")

    def knows(self, key: str) -> bool:
        """Return whether this release looks at the key at all."""
        name = _NUMBERED.get(key.partition("/")[0])
        return name is None or hasattr(self._records, name)

    def encode(self, key: str, value: Any, version: int) -> bytes:
        """Return the row's bytes; b"": this key has no row of its own in ZooKeeper."""
        kind = key.partition("/")[0]
        data = b""
        match kind:
            case "head":
                head = self._rows.HeadRow(write_id="", controller_epoch=0, records=value[0], terms=value[1])
                data = msgspec.json.encode(head)
            case "partition":
                data = self._rows.encode_chunk(value.state.topic, value.state.topic_id, [value])
            case "security":
                data = self._security.encode_security(value, version)
            case _ if kind in _NUMBERED:
                data = self._rows.encode_row(value, version)
        return data

    def decode(self, key: str, data: bytes) -> Any:
        """Raise msgspec.MsgspecError if this release can't read the row."""
        kind, _, rest = key.partition("/")
        records = self._records
        match kind:
            case "head":
                head = msgspec.json.decode(data, type=self._rows.HeadRow)
                return (head.records, head.terms)
            case "partition":
                return _reader(self._rows, "chunk", key)(data)[0]
            case "security":
                folders = {"AclsRecord": "acls", "UserRecord": "users", "QuotasRecord": "quotas"}
                return _reader(self._security, "security", key)(folders[rest.partition("/")[0]], data)[0]
            case "broker" | "coordinator":
                return _reader(self._rows, "member", key)(data, records.MemberKind(kind))[0]
        return _reader(self._rows, "row", key)(data, getattr(records, _NUMBERED[kind]))[0]


def _reader(module: Any, what: str, *where: str) -> Callable[..., Any]:
    """Return what reads such a row in a release: since 0.2 it is told the path, for its errors."""
    read = getattr(module, f"read_{what}", None)
    return getattr(module, f"decode_{what}") if read is None else partial(read, *where)
