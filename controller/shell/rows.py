"""The rows of a cluster's entities in ZooKeeper, and their paths.

    /clusters/{cluster}/level                             LevelRecord: read first; none at level 0
    /clusters/{cluster}/upgrade                           UpgradeRecord; none until an upgrade waits
    /clusters/{cluster}                                   ClusterRecord
    /clusters/{cluster}/head                              HeadRow: the last write
    /clusters/{cluster}/brokers/{broker_id}               MemberRecord of a BrokerRegistration
    /clusters/{cluster}/coordinators/{coordinator_id}     MemberRecord of a CoordinatorRegistration
    /clusters/{cluster}/topics/{topic_id}                 TopicRecord; empty until the topic is announced
    /clusters/{cluster}/topics/{topic_id}/partitions-{n}  ChunkRow: partitions 100n .. 100n+99
    /clusters/{cluster}/producer_ids                      ProducerIdsRecord
    /clusters/{cluster}/acls, users, quotas, groups       security_rows.py

JSON, to be read with any ZooKeeper shell. A chunk holds about a hundred partitions because a write costs
ZooKeeper by the znode, not by the byte: a hundred thousand elections in chunks take a fraction of a second,
in a znode each a quarter of a minute. The partition epoch is in the row; the znode's version guards the
chunk.

A record's row has its fields, with the `Change` that led to it, and (except partitions, which have their
epoch) its number as `version`, which grows for as long as the cluster exists, also over a removal and a
return of the same broker id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from controller.core.records import (
    BrokerRegistration,
    Change,
    CoordinatorRegistration,
    Member,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    Record,
)
from controller.core.witnesses import TermStart
from controller.shell.kept_fields import check_kept, reading
from springtide.contract.epochs import NO_LEADER_EPOCH, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import (
    NO_EPOCH,
    NO_LEADER,
    LeaderRecovery,
    MoveThrottle,
    PartitionState,
    Shard,
)
from springtide.contract.words import known
from springtide.levels import Level

PARTITIONS_PER_CHUNK: Final = 100
#: ZooKeeper refuses a request above jute.maxbuffer, 1 MiB unless configured, by closing the connection; a
#: znode that could not be written again would stop the cluster.
ZNODE_BYTES_MAX: Final = 1_000_000
#: Longer reasons are cut in ZooKeeper; the audit has them whole.
REASON_CHARS_MAX: Final = 1_000

CHUNK_PREFIX: Final = "partitions-"

Kind = TypeVar("Kind", bound=Record)


#: Terms that a cluster's head remembers. A broker that was away for longer is compared by numbers alone.
TERMS_MAX: Final = 16


class HeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's last write. Every write sets it under the version that the write before left behind, so
    writes form a chain: one can't be applied without its predecessors, and after a lost answer this row says
    which was the last to be applied (S17, a write's answer was lost). records: how many records were ever
    persisted. terms: the latest TERMS_MAX that wrote here, ascending, to hold what brokers were told against
    (core/witnesses.py)."""

    write_id: str
    controller_epoch: ControllerEpoch
    records: int
    terms: tuple[TermStart, ...] = ()


class _Numbered(msgspec.Struct):
    version: int


class _MemberRow(_Numbered):
    registration: msgspec.Raw
    change: Change


_REGISTRATIONS: Final[dict[MemberKind, type[Member]]] = {
    MemberKind.BROKER: BrokerRegistration,
    MemberKind.COORDINATOR: CoordinatorRegistration,
}


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A PartitionState without what the chunk says already. change: index into the chunk's `changes`."""

    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    original_replicas: tuple[int, ...] = ()
    throttle: MoveThrottle | None = None
    new_replicas: tuple[int, ...] = ()
    leader: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    min_insync_replicas: int
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    unclean_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    high_watermark_floor: int = 0
    shard: Shard | None = None
    change: int


class ChunkRow(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str
    changes: tuple[Change, ...]
    partitions: tuple[PartitionRow, ...]


# -- where --


def cluster_path(cluster: str) -> str:
    return f"/clusters/{cluster}"


def level_path(cluster: str) -> str:
    return f"/clusters/{cluster}/level"


def upgrade_path(cluster: str) -> str:
    return f"/clusters/{cluster}/upgrade"


def head_path(cluster: str) -> str:
    return f"/clusters/{cluster}/head"


def members_path(cluster: str, kind: MemberKind) -> str:
    return f"/clusters/{cluster}/{kind}s"


def member_path(cluster: str, kind: MemberKind, member_id: int) -> str:
    return f"{members_path(cluster, kind)}/{member_id}"


def topics_path(cluster: str) -> str:
    return f"/clusters/{cluster}/topics"


def topic_path(cluster: str, topic_id: str) -> str:
    return f"/clusters/{cluster}/topics/{topic_id}"


def producer_ids_path(cluster: str) -> str:
    return f"/clusters/{cluster}/producer_ids"


def chunk_path(cluster: str, topic_id: str, chunk: int) -> str:
    return f"/clusters/{cluster}/topics/{topic_id}/{CHUNK_PREFIX}{chunk}"


def chunks_of(partitions: int) -> range:
    """Numbers of the chunks that a topic with so many partitions has."""
    return range(-(-partitions // PARTITIONS_PER_CHUNK))


# -- what --

_encode: Final = msgspec.json.Encoder().encode


def encode_row(record: Record, version: int) -> bytes:
    """Return the row of a record: its fields, and the record's number."""
    if isinstance(record, MemberRecord):
        _check_words(record.registration)
    return _numbered_row(record, version)


def _numbered_row(record: Record, version: int) -> bytes:
    numbered = {"version": version, "change": shorten(record.change)}
    return _encode(msgspec.structs.asdict(record) | numbered)


def read_row(path: str, data: bytes, kind: type[Kind]) -> tuple[Kind, int]:
    """Return the record of the row at a path, and its number. Raise msgspec.ValidationError or DecodeError;
    WrittenByNewer, if it could not be written again as it is."""
    with reading(path):
        record = msgspec.json.decode(data, type=kind)
        number = msgspec.json.decode(data, type=_Numbered).version
    check_kept(path, data, encode_row(record, number))
    return record, number


def read_member(path: str, data: bytes, kind: MemberKind) -> tuple[MemberRecord, int]:
    """Return what `read_row` does: what a member's row has depends on its kind. Raises as `read_row`."""
    with reading(path):
        row = msgspec.json.decode(data, type=_MemberRow)
        registration = msgspec.json.decode(row.registration, type=_REGISTRATIONS[kind])
    record = MemberRecord(registration=registration, change=row.change)
    check_kept(path, data, _numbered_row(record, row.version))  # it names a word that became UNKNOWN
    with reading(path):
        _check_words(registration)
    return record, row.version


class _LeveledRow(msgspec.Struct):
    level: Level


def decode_level(data: bytes) -> Level:
    """Return the level of a level's row: the part of it that each release can read. Raise
    ValueError."""
    return msgspec.json.decode(data, type=_LeveledRow).level


def read_head(path: str, data: bytes) -> HeadRow:
    """Return the head. Raises as `read_row`."""
    with reading(path):
        head = msgspec.json.decode(data, type=HeadRow)
    check_kept(path, data, _encode(head))
    return head


def _check_words(member: Member) -> None:
    if isinstance(member, BrokerRegistration):
        known(member.last_shutdown)


def shorten(change: Change) -> Change:
    """The change as it is stored: with a bounded reason."""
    if change.reason is None or len(change.reason) <= REASON_CHARS_MAX:
        return change
    return msgspec.structs.replace(change, reason=change.reason[:REASON_CHARS_MAX])


def encode_chunk(topic: str, topic_id: str, records: Iterable[PartitionRecord]) -> bytes:
    """Return a ChunkRow's bytes; changes that several rows share are stored once.

    A row is its state's own encoding without the topic, which stands in front, and with the change behind: a
    PartitionRow of each would take twice as long, and a dead broker's partitions wait for it.
    """
    changes: dict[Change, int] = {}
    rows: list[bytes] = []
    last: Change | None = None
    tail = b""
    skipped = len(_encode(topic_id)) + len(_encode(topic)) + len(b'{"topic_id":,"topic":,')
    for record in records:
        if record.change is not last:  # Rows written by one step usually share the object: spare hashing.
            last = record.change
            index = changes.setdefault(shorten(last), len(changes))
            tail = b',"change":%d}' % index
        known(record.state.recovery)
        rows.append(b"{" + _encode(record.state)[skipped:-1] + tail)
    row = ChunkRow(topic=topic, topic_id=topic_id, changes=tuple(changes), partitions=())
    return _encode(row).removesuffix(b"]}") + b",".join(rows) + b"]}"


_chunk_decoder = msgspec.json.Decoder(ChunkRow)


def decode_chunk(
    data: bytes, same: dict[tuple[int, ...], tuple[int, ...]] | None = None
) -> list[PartitionRecord]:
    """Return the chunk's records. same: lists of replicas met so far, of which partitions share one each.
    Raise msgspec.ValidationError or DecodeError for bytes that are not a chunk."""
    return _records_of(_chunk_decoder.decode(data), same)


def read_chunk(
    path: str, data: bytes, same: dict[tuple[int, ...], tuple[int, ...]] | None = None
) -> list[PartitionRecord]:
    """Return what `decode_chunk` does; raises as `read_row`. What is compared is the row as it was decoded:
    that takes a quarter of the time of `encode_chunk`, whose bytes are the same."""
    with reading(path):
        chunk = _chunk_decoder.decode(data)
    check_kept(path, data, _encode(chunk))
    with reading(path):
        return _records_of(chunk, same)


def _records_of(
    chunk: ChunkRow, same: dict[tuple[int, ...], tuple[int, ...]] | None
) -> list[PartitionRecord]:
    shared = {} if same is None else same
    try:
        return [
            PartitionRecord(
                state=PartitionState(
                    topic_id=chunk.topic_id,
                    topic=chunk.topic,
                    partition=row.partition,
                    replicas=shared.setdefault(row.replicas, row.replicas),
                    adding_replicas=row.adding_replicas,
                    removing_replicas=row.removing_replicas,
                    original_replicas=row.original_replicas,
                    throttle=row.throttle,
                    new_replicas=shared.setdefault(row.new_replicas, row.new_replicas),
                    leader=row.leader,
                    leader_epoch=row.leader_epoch,
                    partition_epoch=row.partition_epoch,
                    isr=shared.setdefault(row.isr, row.isr),
                    elr=row.elr,
                    last_known_elr=row.last_known_elr,
                    last_known_leader=row.last_known_leader,
                    min_insync_replicas=row.min_insync_replicas,
                    recovery=known(row.recovery),
                    unclean_leader_epoch=row.unclean_leader_epoch,
                    high_watermark_floor=row.high_watermark_floor,
                    shard=row.shard,
                ),
                change=chunk.changes[row.change],
            )
            for row in chunk.partitions
        ]
    except IndexError as error:
        raise msgspec.ValidationError("a row points at a change that the chunk does not have") from error


# -- how much, at most --

#: Names, punctuation and numbers (ten digits each) of the fields that every row has, and of those that few
#: have.
_ROW_BYTES: Final = 180
_RARE_FIELDS_BYTES: Final = 240
#: A throttle's names, punctuation and rate (nineteen digits), without its operation.
_THROTTLE_BYTES: Final = 70
#: The name, punctuation and value (nineteen digits) of a floor.
_FLOOR_BYTES: Final = 45
#: A shard's names, punctuation and numbers.
_SHARD_BYTES: Final = 110
#: Ten digits and a comma.
_ID_BYTES: Final = 11
#: One character of a JSON string, escaped.
_CHARACTER_BYTES: Final = 6
_CHANGE_BYTES: Final = 200
_CHUNK_BYTES: Final = 100


def partition_bytes_max(state: PartitionState) -> int:
    """Upper bound of a row's length in its chunk."""
    size = _ROW_BYTES + _ID_BYTES * (len(state.replicas) + len(state.isr))
    if (
        state.elr
        or state.last_known_elr
        or state.new_replicas
        or state.adding_replicas
        or state.removing_replicas
        or state.original_replicas
        or state.last_known_leader != NO_LEADER
        or state.unclean_leader_epoch != NO_EPOCH
        or state.recovery is not LeaderRecovery.RECOVERED
    ):
        size += _RARE_FIELDS_BYTES + _ID_BYTES * (
            len(state.elr)
            + len(state.last_known_elr)
            + len(state.new_replicas)
            + len(state.adding_replicas)
            + len(state.removing_replicas)
            + len(state.original_replicas)
        )
    if state.throttle is not None:
        size += _THROTTLE_BYTES + _CHARACTER_BYTES * len(state.throttle.operation)
    if state.high_watermark_floor:
        size += _FLOOR_BYTES
    if state.shard is not None:
        size += _SHARD_BYTES
    return size


def change_bytes_max(change: Change) -> int:
    texts = (change.actor, change.request_id, change.operation_id)
    characters = sum(len(text) for text in texts if text is not None)
    if change.reason is not None:
        characters += min(len(change.reason), REASON_CHARS_MAX)
    return _CHANGE_BYTES + _CHARACTER_BYTES * characters


def chunk_frame_bytes_max(topic: str) -> int:
    """Upper bound of a chunk's length without rows and changes."""
    return _CHUNK_BYTES + _CHARACTER_BYTES * len(topic)
