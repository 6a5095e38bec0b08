"""Persists records to ZooKeeper and reads a cluster back: the durable half of the controller.

Guarantees, to the caller of `persist`:

- fenced: every write checks the controller epoch's znode, so a controller that was replaced changes nothing
  (I5, one writer of metadata);
- ordered: records are applied in the order given. What does not fit into one write is split, and the splits
  form a chain over the version of the cluster's head: after a crash or a lost answer ZooKeeper holds the
  effect of a prefix of the records, never of a later one without an earlier one;
- decided: when an answer is lost, the head is read back, and its write id says which writes were applied. The
  rest is sent again under the same ids; if a lost write still lands, the chain lets only one of the two in.

One object per cluster and term, used by one task. After any failure it is dropped and the cluster read again:
it never has to be repaired.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import anyio.lowlevel
import msgspec

from controller.core.records import (
    AclsRecord,
    Cause,
    Change,
    ClusterRecord,
    GroupRecord,
    LevelRecord,
    MemberKind,
    MemberRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    RemoveMemberRecord,
    RemoveTopicRecord,
    SecurityRecord,
    TopicRecord,
    UpgradeRecord,
    UserRecord,
)
from controller.core.witnesses import TermStart
from controller.shell.acl_chunks import CHUNK_PREFIX, AclChunks, number_of
from controller.shell.clock import ControllerClock, Ids
from controller.shell.kept_fields import UnreadableRows
from controller.shell.leadership import Term
from controller.shell.levels import check_level
from controller.shell.meta import (
    Committed,
    Create,
    Delete,
    Meta,
    MetaUnavailable,
    Node,
    Operation,
    PendingWrite,
    Rejected,
    SessionState,
    SetData,
    Unknown,
    WriteRejection,
)
from controller.shell.rows import (
    PARTITIONS_PER_CHUNK,
    TERMS_MAX,
    ZNODE_BYTES_MAX,
    HeadRow,
    change_bytes_max,
    chunk_frame_bytes_max,
    chunk_path,
    chunks_of,
    cluster_path,
    encode_chunk,
    encode_row,
    head_path,
    level_path,
    member_path,
    members_path,
    partition_bytes_max,
    producer_ids_path,
    read_chunk,
    read_head,
    read_member,
    read_row,
    topic_path,
    topics_path,
    upgrade_path,
)
from controller.shell.security_rows import (
    ACLS,
    FOLDERS,
    encode_security,
    folder_of,
    folder_path,
    read_security,
    security_path,
)
from springtide.contract.partition_state import TopicState
from springtide.levels import UNTOLD, Level

log = logging.getLogger(__name__)

#: Bytes and operations of one write: below jute.maxbuffer (1 MiB) with room for paths and headers. A single
#: znode that is larger than this is written alone.
WRITE_BYTES_MAX: Final = 800_000
WRITE_OPERATIONS_MAX: Final = 2_000
#: Writes sent before the first of them is answered.
WRITES_IN_FLIGHT_MAX: Final = 4
READ_BACK_PAUSE_MS: Final = 20
#: Rows decoded before other tasks get a turn.
ROWS_PER_TURN: Final = 500
#: Chunks read before they are decoded.
CHUNKS_TOGETHER_MAX: Final = 512
_PATH_BYTES: Final = 160
_SMALL_ROW_BYTES: Final = 600
_TERM_BYTES: Final = 110

_EntityRecord = LevelRecord | UpgradeRecord | MemberRecord | SecurityRecord


class Fenced(Exception):
    """Another controller has been elected."""


class Conflict(Exception):
    """ZooKeeper holds something that this controller did not write and did not expect. It must start over
    from what is there."""


class MetadataCorrupt(UnreadableRows):
    """A cluster's znodes can't be read as rows, or some are missing."""


@dataclass(slots=True)
class _Chunk:
    """A chunk znode: its rows as of the last planned write. bytes_max: bound of its encoded length.
    version None: the znode does not exist."""

    topic: str
    rows: dict[int, PartitionRecord] = field(default_factory=dict)
    version: int | None = None
    bytes_max: int = 0


@dataclass(slots=True)
class _Topic:
    """A topic znode. record None: not announced yet."""

    record: TopicRecord | None
    number: int
    version: int
    chunks: dict[int, _Chunk] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Write:
    """One multi of the chain. record_number: of the last record in it."""

    write_id: str
    record_number: int
    operations: tuple[Operation, ...]


class ClusterStore:
    """The rows of one cluster as ZooKeeper has them, with their versions.

    `load` reads them; `records` gives them as records to replay; `persist` adds to them.
    """

    def __init__(self, *, meta: Meta, clock: ControllerClock, ids: Ids, cluster: str) -> None:
        self.cluster = cluster
        self._meta = meta
        self._clock = clock
        self._ids = ids
        self._head_version = -1
        #: Number of the last record, over the cluster's life.
        self.record_number = 0
        self._loaded_records = 0
        self._terms: tuple[TermStart, ...] = ()
        self._forgets_terms = False
        self._cluster: tuple[ClusterRecord, int, int] | None = None  # record, number, znode version
        self._producer_ids: tuple[ProducerIdsRecord, int, int] | None = None
        #: The level, brokers, coordinators, ACLs, users and quotas, by path.
        self._entities: dict[str, tuple[_EntityRecord, int, int]] = {}
        #: Paths of the folders that exist, of those that are made with their first row.
        self._folders: set[str] = set()
        self._topics: dict[str, _Topic] = {}
        self._acl_chunks = AclChunks(cluster, folder_path(cluster, ACLS))

    # -- reading --

    async def load(self) -> bool:
        """Read the whole cluster; False when there is none of this name.

        A consistent picture only while no other process writes: true for a controller whose election bumped
        the epoch. A standby compares `head_version` before and after.

        Raises:
            MetaUnavailable, MetadataCorrupt
            WrittenByNewer: this release would lose some of it.
            UnsupportedLevel: this release can't run at the cluster's level; none of its other rows was read.
        """
        level, head = await self._meta.get_many([level_path(self.cluster), head_path(self.cluster)])
        if level is not None:
            self._load_level(level)
        if head is None:
            return False
        self._head_version = head.version
        try:
            head_row = read_head(head_path(self.cluster), head.data)
            self.record_number = self._loaded_records = head_row.records
            self._terms = head_row.terms
            await self._load_cluster_rows()
            await self._load_security()
            await self._load_topics()
        except ValueError as error:
            raise MetadataCorrupt(f"cluster {self.cluster!r}: {error}") from error
        return True

    def terms_with(self, term: Term) -> tuple[TermStart, ...]:
        """The terms that wrote here, as loaded, and `term`, which is about to."""
        mine = TermStart(
            controller_epoch=term.controller_epoch, lineage=term.lineage, records=self._loaded_records
        )
        if self._terms and (self._terms[-1].controller_epoch, self._terms[-1].lineage) == (
            mine.controller_epoch,
            mine.lineage,
        ):
            return self._terms
        return (*self._terms[1 - TERMS_MAX :], mine)

    def begin_history(self, records_min: int) -> None:
        """Begin another history than any that was told of: once all of the next records are persisted,
        no earlier term is compared with what brokers say (11.4, recovery). Not before: half a recovery must
        be seen to be half of one. Call it only while no write is under way."""
        self.record_number = max(self.record_number, records_min)
        self._forgets_terms = True

    def new_id(self) -> str:
        """Return an identifier that nothing has."""
        return self._ids.new_id()

    @property
    def head_version(self) -> int:
        return self._head_version

    def _load_level(self, node: Node) -> None:
        path = level_path(self.cluster)
        try:
            check_level(self.cluster, node.data)
            self._entities[path] = (*read_row(path, node.data, LevelRecord), node.version)
        except ValueError as error:
            raise MetadataCorrupt(f"cluster {self.cluster!r}: {error}") from error

    async def _load_cluster_rows(self) -> None:
        paths = [cluster_path(self.cluster), producer_ids_path(self.cluster), upgrade_path(self.cluster)]
        cluster, producer_ids, upgrade = await self._meta.get_many(paths)
        if cluster is None:
            raise MetadataCorrupt(f"{paths[0]} is missing")
        self._cluster = (*read_row(paths[0], cluster.data, ClusterRecord), cluster.version)
        if producer_ids is not None:
            ids_row = read_row(paths[1], producer_ids.data, ProducerIdsRecord)
            self._producer_ids = (*ids_row, producer_ids.version)
        if upgrade is not None:
            self._entities[paths[2]] = (*read_row(paths[2], upgrade.data, UpgradeRecord), upgrade.version)
        await self._find_folders(members_path(self.cluster, MemberKind.COORDINATOR))
        for kind in MemberKind:
            for path, node in await self._load_members(kind):
                self._entities[path] = (*read_member(path, node.data, kind), node.version)

    async def _find_folders(self, *paths: str) -> None:
        nodes = await self._meta.get_many(list(paths))
        self._folders |= {path for path, node in zip(paths, nodes, strict=True) if node is not None}

    async def _load_security(self) -> None:
        paths = {folder: folder_path(self.cluster, folder) for folder in FOLDERS}
        await self._find_folders(*paths.values())
        for folder, directory in paths.items():
            names = sorted(await self._meta.children(directory)) if directory in self._folders else []
            for done, (path, node) in enumerate(await self._load_nodes(directory, names), start=1):
                if folder == ACLS and path.startswith(f"{directory}/{CHUNK_PREFIX}"):
                    self._acl_chunks.load(path, node)
                    await anyio.lowlevel.checkpoint()
                    continue
                record, number = read_security(path, folder, node.data)
                if security_path(self.cluster, record) != path:
                    raise MetadataCorrupt(f"{path} holds the row of another name")
                self._entities[path] = (record, number, node.version)
                if done % ROWS_PER_TURN == 0:
                    await anyio.lowlevel.checkpoint()

    async def _load_members(self, kind: MemberKind) -> list[tuple[str, Node]]:
        """Return the members' znodes, in order of id."""
        directory = members_path(self.cluster, kind)
        return await self._load_nodes(directory, sorted(await self._meta.children(directory), key=int))

    async def _load_nodes(self, directory: str, names: Sequence[str]) -> list[tuple[str, Node]]:
        paths = [f"{directory}/{name}" for name in names]
        nodes = await self._meta.get_many(paths)
        return [(path, node) for path, node in zip(paths, nodes, strict=True) if node is not None]

    async def _load_topics(self) -> None:
        topic_ids = await self._meta.children(topics_path(self.cluster))
        nodes = await self._meta.get_many([topic_path(self.cluster, topic_id) for topic_id in topic_ids])
        wanted: list[tuple[str, int]] = []
        for topic_id, node in zip(topic_ids, nodes, strict=True):
            path = topic_path(self.cluster, topic_id)
            if node is None:
                continue
            if not node.data:
                # Its partitions were written, its announcement was not: `orphans`.
                self._topics[topic_id] = _Topic(None, 0, node.version)
                names = await self._meta.children(path)
                wanted += [(topic_id, int(name.rpartition("-")[2])) for name in names]
                continue
            record, number = read_row(path, node.data, TopicRecord)
            self._topics[topic_id] = _Topic(record, number, node.version)
            wanted += [(topic_id, chunk) for chunk in chunks_of(record.state.partitions)]
        await self._load_chunks(wanted)
        for topic_id, topic in self._topics.items():
            if topic.record is not None:
                self._check_complete(topic_id, topic, topic.record.state)

    async def _load_chunks(self, wanted: Sequence[tuple[str, int]]) -> None:
        """Read these chunks, a part of them at a time, so that their bytes are soon dropped."""
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        rows_read = 0
        for start in range(0, len(wanted), CHUNKS_TOGETHER_MAX):
            part = wanted[start : start + CHUNKS_TOGETHER_MAX]
            paths = [chunk_path(self.cluster, *key) for key in part]
            nodes = await self._meta.get_many(paths)
            for (topic_id, number), path, node in zip(part, paths, nodes, strict=True):
                topic = self._topics[topic_id]
                if node is None:
                    if topic.record is None:
                        continue
                    raise MetadataCorrupt(f"{path} is missing")
                rows = read_chunk(path, node.data, same)
                name = rows[0].state.topic if rows else ""
                topic.chunks[number] = _Chunk(
                    name, {row.state.partition: row for row in rows}, node.version, len(node.data)
                )
                rows_read += len(rows)
                if rows_read >= PARTITIONS_PER_CHUNK:  # many topics have few
                    rows_read = 0
                    await anyio.lowlevel.checkpoint()

    def _check_complete(self, topic_id: str, topic: _Topic, state: TopicState) -> None:
        found = sum(
            1 for chunk in topic.chunks.values() for partition in chunk.rows if partition < state.partitions
        )
        if found != state.partitions:
            raise MetadataCorrupt(
                f"topic {topic_id} has {state.partitions} partitions, {found} rows were found"
            )

    def records(self) -> Iterator[tuple[Record, int]]:
        """Everything as records, in an order in which they can be replayed, each with its number (0 for
        partitions, which have their epoch)."""
        assert self._cluster is not None
        yield self._cluster[:2]
        if self._producer_ids is not None:
            yield self._producer_ids[:2]
        yield from self._acl_chunks.records()
        for record, number, _ in self._entities.values():
            yield record, number
        for topic_id in sorted(self._topics):
            topic = self._topics[topic_id]
            if topic.record is None:
                continue
            for number in sorted(topic.chunks):
                rows = topic.chunks[number].rows
                for partition in sorted(rows):
                    if partition < topic.record.state.partitions:
                        yield rows[partition], 0
            yield topic.record, topic.number

    def orphans(self) -> tuple[RemoveTopicRecord, ...]:
        """Removals of topics that a crash left with partitions and no announcement (4.7, creation). For
        `persist`, not for replaying: no image ever knew them."""
        change = Change(cause=Cause.TAKEOVER_REPAIR, at_ms=self._clock.now_wall_ms())
        return tuple(
            RemoveTopicRecord(topic_id=topic_id, topic="", change=change)
            for topic_id, topic in sorted(self._topics.items())
            if topic.record is None
        )

    # -- writing --

    async def persist(
        self, records: Sequence[Record], term: Term, *, on_persisted: Callable[[int], None] | None = None
    ) -> None:
        """Apply the records, in order; return once all of them are applied.

        on_persisted: told how many of them are applied, each time there are more.

        Raises:
            Fenced: another controller is active. A prefix of the records may have been applied.
            Conflict: as said there.
        A lost session ends the term and with it, by cancellation, this call.
        """
        in_flight: deque[tuple[_Write, PendingWrite, int]] = deque()
        first = self.record_number

        async def settle() -> None:
            number = await self._settle(in_flight, term)
            if number is not None and on_persisted is not None:
                on_persisted(number - first)

        for write in self._plan(records, term):
            if len(in_flight) == WRITES_IN_FLIGHT_MAX:
                await settle()
            in_flight.append((write, self._meta.start_write(write.operations), self._clock.now_mono_ms()))
            await anyio.lowlevel.checkpoint()  # Encoding is work: let heartbeats be answered in between.
        while in_flight:
            await settle()

    async def _settle(self, in_flight: deque[tuple[_Write, PendingWrite, int]], term: Term) -> int | None:
        """Take the oldest write off the queue once it is applied. Return the number of the last record that
        is known to be applied by that; None when it is not known of any more than before."""
        write, pending, sent_ms = in_flight[0]
        match await pending.outcome():
            case Committed():
                term.prove(sent_ms)
                in_flight.popleft()
                return write.record_number
            case Rejected(0, _, detail):
                raise Fenced(detail)
            case Rejected(1, WriteRejection.BAD_VERSION, _) if await self._last_write_id() == write.write_id:
                # Sent twice after a lost answer, and it was the first that landed.
                in_flight.popleft()
                return write.record_number
            case Rejected(index, reason, detail):
                operation = write.operations[index]  # its data may be a user's secrets
                raise Conflict(f"{reason} at {type(operation).__name__} {operation.path}: {detail}")
            case Unknown(detail):
                log.info("write_outcome_unknown cluster=%s detail=%s", self.cluster, detail)
                return await self._resume(in_flight, term)

    async def _resume(self, in_flight: deque[tuple[_Write, PendingWrite, int]], term: Term) -> int | None:
        """Read back which of the writes were applied, and send the others again."""
        for _, pending, _ in in_flight:
            await (
                pending.outcome()
            )  # All have been answered or lost; nothing of ours is on its way after this.
        last = await self._last_write_id()
        applied = next((i for i, (write, _, _) in enumerate(in_flight) if write.write_id == last), -1)
        log.info("write_read_back cluster=%s applied=%d of=%d", self.cluster, applied + 1, len(in_flight))
        number: int | None = None
        for _ in range(applied + 1):
            number = in_flight.popleft()[0].record_number
        writes = [write for write, _, _ in in_flight]
        in_flight.clear()
        for write in writes:
            in_flight.append((write, self._meta.start_write(write.operations), self._clock.now_mono_ms()))
        if term.end_reason is not None:
            raise Fenced(term.end_reason)
        return number

    async def _last_write_id(self) -> str:
        while True:
            session = self._meta.session
            while session.state is not SessionState.CONNECTED:
                session = await self._meta.session_changed(session)
            try:
                node = await self._meta.get_synced(head_path(self.cluster))
            except MetaUnavailable:
                await self._clock.sleep_ms(READ_BACK_PAUSE_MS)
                continue
            if node is None:
                raise Conflict(f"{head_path(self.cluster)} has gone")
            return msgspec.json.decode(node.data, type=HeadRow).write_id

    def _plan(self, records: Sequence[Record], term: Term) -> Iterator[_Write]:
        """Cut the records into writes. State moves along: each write holds what stands after its last record,
        so it must not be computed from anything newer."""
        batch = _Batch()
        for record in records:
            if isinstance(record, PartitionRecord) and self._apply_to_open_chunk(record, batch):
                continue
            size, operations = self._bound(record, batch)
            if not batch.is_empty and (
                batch.bytes_max + size > WRITE_BYTES_MAX
                or batch.operations_max + operations > WRITE_OPERATIONS_MAX
            ):
                yield self._seal(batch, term)
                batch = _Batch()
                size, operations = self._bound(record, batch)
            batch.bytes_max += size
            batch.operations_max += operations
            self.record_number += 1
            self._apply(record, batch)
        if not batch.is_empty:
            yield self._seal(batch, term, is_last=True)

    def _apply_to_open_chunk(self, record: PartitionRecord, batch: _Batch) -> bool:
        """Apply a record to the chunk that the record before touched, if its partition is of that chunk and
        changed for the same reason; return False if not. A dead broker leads to ten thousands of such."""
        state = record.state
        if (
            record.change is not batch.last_change
            or state.topic_id != batch.last_topic_id
            or state.partition // PARTITIONS_PER_CHUNK != batch.last_chunk
        ):
            return False
        size = partition_bytes_max(state)
        if batch.bytes_max + size > WRITE_BYTES_MAX:
            return False
        batch.bytes_max += size
        self.record_number += 1
        batch.last_rows[state.partition] = record
        return True

    def _bound(self, record: Record, batch: _Batch) -> tuple[int, int]:
        """Upper bounds of the bytes and operations that the record adds to the batch."""
        change = change_bytes_max(record.change)
        match record:
            case PartitionRecord(state=state):
                number = state.partition // PARTITIONS_PER_CHUNK
                size = partition_bytes_max(state) + change
                if (state.topic_id, number) in batch.chunks:
                    return size, 0
                topic = self._topics.get(state.topic_id)
                chunk = None if topic is None else topic.chunks.get(number)
                frame = chunk_frame_bytes_max(state.topic) if chunk is None else chunk.bytes_max
                return size + frame + 2 * _PATH_BYTES, 2
            case RemoveTopicRecord(topic_id=topic_id):
                topic = self._topics.get(topic_id)
                count = 1 if topic is None else 1 + len(topic.chunks)
                return count * _PATH_BYTES, count
            case _:
                # Configs are bounded by the names that exist; their rows are encoded here only to be
                # measured.
                is_removal = isinstance(record, RemoveMemberRecord) or (
                    isinstance(record, SecurityRecord) and record.is_removal
                )
                size = 0 if is_removal else len(msgspec.json.encode(record))
                # With the first, their folder.
                is_broker = isinstance(record, MemberRecord) and record.registration.kind is MemberKind.BROKER
                count = 2 if isinstance(record, MemberRecord | SecurityRecord) and not is_broker else 1
                if isinstance(record, AclsRecord):
                    path = security_path(self.cluster, record)
                    size += _PATH_BYTES
                    size += 0 if number_of(path) in batch.acl_chunks else self._acl_chunks.bytes_of(path)
                    count += 1  # Where the row was before: its own znode, or its chunk.
                return size + change + _SMALL_ROW_BYTES + _PATH_BYTES, count

    def _apply(self, record: Record, batch: _Batch) -> None:
        number = self.record_number
        match record:
            case PartitionRecord(state=state):
                topic = self._topics.get(state.topic_id)
                if topic is None:
                    topic = self._topics[state.topic_id] = _Topic(None, 0, 0)
                    batch.extra.append(Create(topic_path(self.cluster, state.topic_id), b""))
                chunk_number = state.partition // PARTITIONS_PER_CHUNK
                chunk = topic.chunks.setdefault(chunk_number, _Chunk(state.topic))
                chunk.topic, chunk.rows[state.partition] = state.topic, record
                batch.chunks[(state.topic_id, chunk_number)] = None
                batch.last_change, batch.last_topic_id = record.change, state.topic_id
                batch.last_chunk, batch.last_rows = chunk_number, chunk.rows
            case TopicRecord(state=topic_state):
                topic = self._topics.get(topic_state.topic_id)
                if topic is None:
                    topic = self._topics[topic_state.topic_id] = _Topic(None, 0, 0)
                    batch.extra.append(Create(topic_path(self.cluster, topic_state.topic_id), b""))
                topic.record, topic.number = record, number
                batch.topics[topic_state.topic_id] = None
            case RemoveTopicRecord(topic_id=topic_id):
                self._remove_topic(topic_id, batch)
            case MemberRecord(registration=member):
                if member.kind is MemberKind.COORDINATOR:
                    self._make_folder(members_path(self.cluster, member.kind), batch)
                self._put_entity(member_path(self.cluster, member.kind, member.member_id), record, batch)
            case RemoveMemberRecord(kind=kind, member_id=member_id):
                self._remove_entity(member_path(self.cluster, kind, member_id), batch)
            case AclsRecord() | UserRecord() | QuotasRecord() | GroupRecord():
                path = security_path(self.cluster, record)
                if not record.is_removal:
                    self._make_folder(folder_path(self.cluster, folder_of(record)), batch)
                if (
                    isinstance(record, AclsRecord) and self._put_in_chunk(path, record, batch)
                ) or record.is_removal:
                    self._remove_entity(path, batch)
                else:
                    self._put_entity(path, record, batch)
            case ClusterRecord():
                assert self._cluster is not None
                self._cluster = (record, number, self._cluster[2])
                batch.has_cluster = True
            case LevelRecord():
                self._put_entity(level_path(self.cluster), record, batch)
            case UpgradeRecord():
                self._put_entity(upgrade_path(self.cluster), record, batch)
            case ProducerIdsRecord():
                known_version = -1 if self._producer_ids is None else self._producer_ids[2]
                self._producer_ids = (record, number, known_version)
                batch.has_producer_ids = True
            case _:
                assert_never(record)

    def _make_folder(self, path: str, batch: _Batch) -> None:
        if path not in self._folders:
            self._folders.add(path)
            batch.extra.append(Create(path, b""))

    def _put_in_chunk(self, path: str, record: AclsRecord, batch: _Batch) -> bool:
        """Put a pattern's row into its chunk; return False if it is to have a znode of its own, or none. Then
        its chunk has none of it."""
        number = None if record.is_removal else self._acl_chunks.put(path, record, self.record_number)
        touched = self._acl_chunks.remove(path) if number is None else number
        if touched is not None:
            batch.acl_chunks[touched] = None
        return number is not None

    def _put_entity(self, path: str, record: _EntityRecord, batch: _Batch) -> None:
        known = self._entities.get(path)
        self._entities[path] = (record, self.record_number, -1 if known is None else known[2])
        batch.entities[path] = None

    def _remove_entity(self, path: str, batch: _Batch) -> None:
        known = self._entities.pop(path, None)
        batch.entities.pop(path, None)
        if known is not None and known[2] >= 0:
            batch.removed_entities[path] = known[2]

    def _remove_topic(self, topic_id: str, batch: _Batch) -> None:
        topic = self._topics.pop(topic_id, None)
        batch.last_change = None
        if topic is None:
            return
        path = topic_path(self.cluster, topic_id)
        is_new = any(isinstance(op, Create) and op.path == path for op in batch.extra)
        batch.extra = [op for op in batch.extra if op.path != path]
        batch.topics.pop(topic_id, None)
        for number, chunk in topic.chunks.items():
            batch.chunks.pop((topic_id, number), None)
            if chunk.version is not None:
                batch.deletions.append(Delete(chunk_path(self.cluster, topic_id, number), chunk.version))
        if not is_new:
            batch.deletions.append(Delete(path, topic.version))

    def _seal(self, batch: _Batch, term: Term, *, is_last: bool = False) -> _Write:
        """Encode what the batch touched, and move the versions on as if it had been applied."""
        write_id = self._ids.new_id()
        head = HeadRow(
            write_id=write_id,
            controller_epoch=term.controller_epoch,
            records=self.record_number,
            terms=() if self._forgets_terms and is_last else self.terms_with(term),
        )
        operations: list[Operation] = [
            term.epoch_check,
            SetData(head_path(self.cluster), msgspec.json.encode(head), self._head_version),
            *batch.extra,
        ]
        self._head_version += 1
        for topic_id, chunk_number in batch.chunks:
            operations.append(self._seal_chunk(topic_id, chunk_number))
        for topic_id in batch.topics:
            topic = self._topics[topic_id]
            assert topic.record is not None
            data = encode_row(topic.record, topic.number)
            operations.append(SetData(topic_path(self.cluster, topic_id), data, topic.version))
            topic.version += 1
        operations += batch.deletions
        operations += filter(None, (self._acl_chunks.seal(number) for number in batch.acl_chunks))
        self._seal_small_rows(batch, operations)
        return _Write(write_id, self.record_number, tuple(operations))

    def _seal_chunk(self, topic_id: str, chunk_number: int) -> Operation:
        chunk = self._topics[topic_id].chunks[chunk_number]
        data = encode_chunk(chunk.topic, topic_id, (chunk.rows[number] for number in sorted(chunk.rows)))
        assert len(data) <= ZNODE_BYTES_MAX, f"chunk {chunk_number} of topic {topic_id}: {len(data)} bytes"
        chunk.bytes_max = len(data)
        path = chunk_path(self.cluster, topic_id, chunk_number)
        if chunk.version is None:
            chunk.version = 0
            return Create(path, data)
        chunk.version += 1
        return SetData(path, data, chunk.version - 1)

    def _seal_small_rows(self, batch: _Batch, operations: list[Operation]) -> None:
        for path, version in batch.removed_entities.items():
            operations.append(Delete(path, version))
        for path in batch.entities:
            record, number, version = self._entities[path]
            data = (
                encode_security(record, number)
                if isinstance(record, SecurityRecord)
                else encode_row(record, number)
            )
            assert len(data) <= ZNODE_BYTES_MAX, f"{path}: {len(data)} bytes"
            operations.append(_put(path, data, version))
            self._entities[path] = (record, number, version + 1)
        if batch.has_producer_ids and self._producer_ids is not None:
            ids_record, number, version = self._producer_ids
            data = encode_row(ids_record, number)
            operations.append(_put(producer_ids_path(self.cluster), data, version))
            self._producer_ids = (ids_record, number, version + 1)
        if batch.has_cluster and self._cluster is not None:
            cluster_record, number, version = self._cluster
            data = encode_row(cluster_record, number)
            operations.append(SetData(cluster_path(self.cluster), data, version))
            self._cluster = (cluster_record, number, version + 1)


@dataclass(slots=True)
class _Batch:
    """The rows that the records of one write have touched so far."""

    bytes_max: int = 2 * _PATH_BYTES + _SMALL_ROW_BYTES + TERMS_MAX * _TERM_BYTES
    operations_max: int = 2
    extra: list[Operation] = field(default_factory=list)
    deletions: list[Operation] = field(default_factory=list)
    chunks: dict[tuple[str, int], None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    entities: dict[str, None] = field(default_factory=dict)
    removed_entities: dict[str, int] = field(default_factory=dict)
    acl_chunks: dict[int, None] = field(default_factory=dict)
    #: The chunk and the change of the last partition record.
    last_change: Change | None = None
    last_topic_id: str = ""
    last_chunk: int = -1
    last_rows: dict[int, PartitionRecord] = field(default_factory=dict)
    has_cluster: bool = False
    has_producer_ids: bool = False

    @property
    def is_empty(self) -> bool:
        return self.operations_max == 2


def _put(path: str, data: bytes, version: int) -> Operation:
    """Create the znode when its version says that there is none."""
    return Create(path, data) if version < 0 else SetData(path, data, version)


def cluster_creation(
    cluster: str, record: ClusterRecord, *, term: Term, write_id: str, level: Level = UNTOLD
) -> list[Operation]:
    """One write that makes an empty cluster; rejected at index 1 when the name is taken."""
    start = TermStart(controller_epoch=term.controller_epoch, lineage=term.lineage, records=0)
    head = HeadRow(write_id=write_id, controller_epoch=term.controller_epoch, records=1, terms=(start,))
    return [
        term.epoch_check,
        Create(cluster_path(cluster), encode_row(record, 1)),
        *_level_row(cluster, level, record.change),
        Create(head_path(cluster), msgspec.json.encode(head)),
        Create(members_path(cluster, MemberKind.BROKER), b""),
        Create(topics_path(cluster), b""),
    ]


def _level_row(cluster: str, level: Level, change: Change) -> list[Operation]:
    """The level of a new cluster, as part of the record that makes it."""
    if not level:
        return []
    return [Create(level_path(cluster), encode_row(LevelRecord(level=level, change=change), 1))]
