"""A controller of this release reads each znode that the last one wrote, and writes the same bytes again."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.records import ClusterRecord, LevelRecord, MemberKind, ProducerIdsRecord, TopicRecord
from controller.shell.acl_chunks import AclChunks
from controller.shell.leadership import ClaimRow, EpochRow
from controller.shell.levels import RunningRow
from controller.shell.meta import Node, SetData
from controller.shell.rows import decode_chunk, encode_chunk, encode_row, read_head, read_member, read_row
from controller.shell.security_rows import encode_security, read_security, security_path
from springtide.levels import KEPT_DELETED_TOPICS, UNTOLD, Level, allows
from tests.upgrade.golden.files import Golden, kept_levels

ZNODES = {
    level: {path: data for path, data in Golden(level).znodes().items() if data} for level in kept_levels()
}


def _again(path: str, data: bytes) -> bytes:
    """Read the row at a path and write it."""
    match path.split("/")[1:]:
        case ["controller_epoch"]:
            return msgspec.json.encode(msgspec.json.decode(data, type=EpochRow))
        case ["controllers", "running", _]:
            return msgspec.json.encode(msgspec.json.decode(data, type=RunningRow))
        case ["controllers", "active"]:
            return msgspec.json.encode(msgspec.json.decode(data, type=ClaimRow))
        case ["clusters", _]:
            return encode_row(*read_row(path, data, ClusterRecord))
        case ["clusters", _, "level"]:
            return encode_row(*read_row(path, data, LevelRecord))
        case ["clusters", _, "head"]:
            return msgspec.json.encode(read_head(path, data))
        case ["clusters", _, "producer_ids"]:
            return encode_row(*read_row(path, data, ProducerIdsRecord))
        case ["clusters", _, "brokers", _]:
            return encode_row(*read_member(path, data, MemberKind.BROKER))
        case ["clusters", _, "coordinators", _]:
            return encode_row(*read_member(path, data, MemberKind.COORDINATOR))
        case ["clusters", _, "topics", _]:
            return encode_row(*read_row(path, data, TopicRecord))
        case ["clusters", _, "topics", _, _]:
            records = decode_chunk(data)
            return encode_chunk(records[0].state.topic, records[0].state.topic_id, records)
        case ["clusters", _, "acls", _]:
            return _acls_again(path, data)
        case ["clusters", _, ("users" | "quotas") as folder, _]:
            return encode_security(*read_security(path, folder, data))
    raise AssertionError(f"nothing reads {path}")


def _acls_again(path: str, data: bytes) -> bytes:
    """Put the first pattern of a chunk into it once more, which writes the whole chunk."""
    chunks = AclChunks("prod", path.rpartition("/")[0])
    chunks.load(path, Node(data=data, version=0, owner=0, created_zxid=0, modified_ms=0))
    record, number = next(chunks.records())
    chunk = chunks.put(security_path("prod", record), record, number)
    assert chunk is not None
    operation = chunks.seal(chunk)
    assert isinstance(operation, SetData)
    return operation.data


@pytest.mark.parametrize(
    ("level", "path"), [(level, path) for level, znodes in ZNODES.items() for path in znodes]
)
def test_each_row_is_written_again_byte_for_byte(level: Level, path: str) -> None:
    assert _again(path, ZNODES[level][path]) == ZNODES[level][path]


@pytest.mark.parametrize("level", ZNODES)
def test_one_of_everything_is_there(level: Level) -> None:
    kinds = {tuple(path.split("/")[3:4]) for path in ZNODES[level] if path.startswith("/clusters/")}
    names = {name for kind in kinds for name in kind}
    assert names - {"level"} == {
        "head", "brokers", "coordinators", "topics", "producer_ids", "acls", "users", "quotas"
    }  # fmt: skip
    assert ("level" in names) is (level > UNTOLD)
    topics = [
        read_row(path, data, TopicRecord)[0].state
        for path, data in ZNODES[level].items()
        if path.split("/")[3:4] == ["topics"] and len(path.split("/")) == 5
    ]
    is_kept = any(topic.kept is not msgspec.UNSET for topic in topics)
    assert is_kept is allows(level, KEPT_DELETED_TOPICS)
    states = [
        record.state
        for path, data in ZNODES[level].items()
        if "/partitions-" in path
        for record in decode_chunk(data)
    ]
    assert any(state.adding_replicas or state.removing_replicas for state in states), "a replica is moved"
    assert any(state.throttle is not None for state in states)
    assert any(len(state.isr) < len(state.replicas) for state in states)
    assert any(state.elr for state in states)
    assert any(state.shard is not None for state in states)
