"""The oracle: what must hold after every step, and the ghost that it compares with.

The oracle keeps what no part of the system has: the *ghost*, every batch that some leader's high watermark
ever covered, by offset. A violation is an exception that names the invariant; the seed that found it replays
to the same step.

Checked, with its cost, after

- a replica was touched: I22 (deletion needs evidence), I26 (start, high watermark and end in order), I13
  (logs match) of what is newly below its mark; I2 (the leader is never laxer) if it leads and it, the
  controller's state or its promise changed since. O(1) if nothing moved, else O(batches that moved). And
  2.9 (leases): its broker's lease is no older than it may be, and it answers for no leadership that another
  replica has had for longer than a lease. O(1) unless another leads;
- a fetch was served: I7 (leader epochs are unique), I8 (broker epochs fence incarnations). O(1);
- a high watermark moved: I3 (only this epoch's evidence counts) by our own list of fetches; I1 (candidates
  are complete) of every candidate. O(replicas + new batches);
- a write in ZooKeeper: I5 (one writer of metadata); of the partitions written I6 (partition epochs order
  everything), I7, I1, I2, I37 (what a client deleted stays deleted) and I38 (a host has one replica).
  O(partitions written);
- an answer to a producer: I39 (acknowledged in the topic that there is). O(1);
- an answer to a client: I4 (acknowledged means committed), I18 (reads stop at the high watermark), I19 (no
  latest offset before it is known), I23 (no gap, no repeat). O(log batches + batches read);
- the end: I13, I23 and I24 (acknowledged is read) over everything. O(all batches).

Nothing is sampled. What is skipped has not changed since it was checked: logs are append-only between
truncations, a truncation lowers the mark up to which a log counts as checked, and I2 is a function of three
values that are compared by identity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.core.events import TopicConfigured
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.replica import Replica
from dataplane.storage.retention import SegmentView
from springtide.contract.agreed_time import LEAP_MS_MIN
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader, iter_headers
from tests.simulation.compaction import check_equal, unlike
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster


CLOCK_SLACK = 1.06
"""Clocks run up to 5 % slow."""
#: An answer that took longer says nothing of what the controller's clock shows.
ANSWER_MS_MAX = 5_000


class Content(NamedTuple):
    """What a batch is, wherever it stands. A CRC alone is not enough: among some hundred thousand batches of
    a sweep two different ones had the same (seed 300)."""

    producer_id: int
    base_sequence: int
    crc: int


class Committed(NamedTuple):
    """One batch below some leader's high watermark. Its offsets never hold anything else again (I13)."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    content: Content


class Began(NamedTuple):
    """A leadership began, in true time."""

    leader_epoch: int
    leader: int
    at_ms: int


def content_of(header: BatchHeader) -> Content:
    return Content(header.producer_id, header.base_sequence, header.crc)


def committed_of(header: BatchHeader) -> Committed:
    return Committed(header.base_offset, header.next_offset, header.leader_epoch, content_of(header))


@dataclass(slots=True)
class Ghost:
    """`headers`: of the same batches, to compare as a whole. `data`: their bytes, if topics are
    compacted."""

    batches: list[Committed] = field(default_factory=list)
    headers: list[BatchHeader] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    end_offset: int = 0

    def append(self, header: BatchHeader, data: bytes = b"") -> None:
        self.headers.append(header)
        self.data.append(data)
        self.batches.append(committed_of(header))
        self.end_offset = header.next_offset

    def from_offset(self, offset: int) -> int:
        """Index of the first batch at or beyond `offset`."""
        headers = self.headers
        if offset >= self.end_offset:
            return len(headers)
        low, high = 0, len(headers)
        while low < high:
            middle = (low + high) // 2
            if headers[middle].base_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


class Oracle:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ghosts: defaultdict[PartitionKey, Ghost] = defaultdict(Ghost)
        self.isr_changes = 0
        self._verified: dict[tuple[int, PartitionKey], int] = {}
        self._evidence: dict[tuple[int, int, PartitionKey, int], dict[int, int]] = {}
        self._histories = 0
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._partition_epochs: dict[PartitionKey, int] = {}
        self._began: defaultdict[PartitionKey, list[Began]] = defaultdict(list)
        self._superset_checked: dict[PartitionKey, tuple[Any, Any, Any]] = {}
        #: Partitions whose log an operator chose by hand (losses.py): the mark's leader epoch and where the
        #: ghost was cut; -1 before that election. What was cut off is lost for all to see.
        self.conceded: dict[PartitionKey, tuple[int, int]] = {}
        #: Partitions whose leader the operator chose although nothing was lost: the leader epoch of it.
        self.chosen: dict[PartitionKey, int] = {}
        #: Up to where clients asked to delete, and up to where they were told that it is done (I37).
        self.deletable: dict[PartitionKey, int] = {}
        self.deleted: dict[PartitionKey, int] = {}
        #: Name -> id of the topic that was made last under it.
        self.holders: dict[str, str] = {}
        #: Brokers that were resumed from a snapshot: where all of a log is deleted meanwhile, nothing shows
        #: that they forgot its producers (gap G6).
        self.resumed: set[int] = set()
        #: By topic: the minimum in sync of which an operator was told that it is in force (2.12, answers).
        self.minimums: dict[str, int] = {}
        self._minimums_asked = 0
        self._asked_last: dict[str, int] = {}
        self._lost: set[tuple[PartitionKey, Content]] = set()
        #: Partitions for which an operator had to choose a log that compaction had left with gaps.
        self.torn: set[PartitionKey] = set()

    # --- brokers ----------------------------------------------------------------------------------------

    @property
    def _is_back(self) -> bool:
        """Rows of an earlier time stand for nothing but themselves."""
        return self.cluster.zookeeper.is_back

    def on_replica_touched(self, broker: BrokerNode, key: PartitionKey) -> None:
        replica = broker.replicas.get(key)
        if replica is None:
            return
        log = replica.log
        high_watermark, log_end = replica.high_watermark, log.log_end_offset
        if not log.log_start_offset <= high_watermark <= log_end:
            raise Violation(
                "I26",
                f"{key} on broker {broker.broker_id}: {log.log_start_offset} <= {high_watermark}"
                f" <= {log_end} does not hold",
            )
        if log.log_start_offset > (deletable := self.deletable.get(key, 0)):
            raise Violation(
                "I22",
                f"{key} on broker {broker.broker_id} begins at {log.log_start_offset}, and nobody asked for "
                f"more than {deletable}",
            )
        verified = self._verified.get((broker.broker_id, key), -1)
        if not high_watermark <= verified <= log_end:
            self._check_matching(broker.broker_id, log, key, high_watermark)
        shards = self.cluster.shards
        if shards is not None:
            shards.on_replica_touched(broker, key, replica)
        if replica.leading is not None:
            self._check_lease(broker)
            state = self.cluster.truth(key)
            if state is not None and state.leader == broker.broker_id and not self._is_back:
                self._check_quorum_superset(key, state, replica)
            else:
                self._check_quiet(broker, key, replica)

    def on_leadership_began(self, broker: BrokerNode, key: PartitionKey) -> None:
        began = Began(broker.replicas[key].leader_epoch, broker.broker_id, self.cluster.events.now_ms)
        self._began[key].append(began)

    def on_fetch_served(
        self,
        leader: BrokerNode,
        key: PartitionKey,
        replica_id: int,
        broker_epoch: int,
        position: FetchPosition,
    ) -> None:
        replica = leader.replicas[key]
        if replica.leader_epoch != position.leader_epoch:
            raise Violation("I7", f"{key} served epoch {position.leader_epoch} in {replica.leader_epoch}")
        if broker_epoch < leader.view.brokers[replica_id].broker_epoch:
            raise Violation("I8", f"{key} served an earlier incarnation of broker {replica_id}")
        seen = self._evidence.setdefault((leader.broker_id, leader.life, key, replica.leader_epoch), {})
        seen[replica_id] = max(seen.get(replica_id, -1), position.fetch_offset)

    def on_high_watermark_moved(self, broker: BrokerNode, key: PartitionKey) -> None:
        replica = broker.replicas[key]
        state = replica.state
        if replica.leading is None or state is None:
            return
        high_watermark = replica.high_watermark
        if len(state.isr) < state.min_insync_replicas:
            raise Violation("I3", f"{key} high watermark moved with ISR {state.isr}")
        told = min(self.minimums.get(key[0], 0), state.replication_factor)
        # Without the lease, those who vouch for it may be cut off together with it.
        if len(state.isr) < told and broker.lease.is_held(broker.now_ms) and not self._is_back:
            raise Violation("2.12", f"{key} commits with ISR {state.isr}: a minimum of {told} is in force")
        evidence = self._evidence.get((broker.broker_id, broker.life, key, replica.leader_epoch), {})
        for member in replica.maximal_isr:
            if member != broker.broker_id and evidence.get(member, -1) < high_watermark:
                raise Violation(
                    "I3",
                    f"{key} high watermark {high_watermark} on broker {broker.broker_id} in leader epoch "
                    f"{replica.leader_epoch}, but broker {member} fetched only {evidence.get(member)}",
                )
        ghost, shards = self.ghosts[key], self.cluster.shards
        if ghost.end_offset < high_watermark:
            log: Any = replica.log
            is_kept = self.cluster.options.compacted or (shards is not None and shards.keeps(key))
            for header in headers_of(log, ghost.end_offset, high_watermark):
                ghost.append(header, log.data_of(header) if is_kept else b"")
            state = self.cluster.truth(key)
            if state is not None and not self._is_back:
                self._check_candidates(key, state)
        if shards is not None:
            shards.on_high_watermark(key, replica.log, ghost.end_offset)

    # --- clocks -----------------------------------------------------------------------------------------

    def on_expired(self, broker: BrokerNode, key: PartitionKey, segments: Sequence[SegmentView]) -> None:
        """I36 (no clock destroys alone): what a leader is about to delete for its age. No record of a run
        gets so old in it."""
        youngest_ms = broker.clock.true_wall_ms - max(segment.timestamp_ms for segment in segments)
        raise Violation(
            "I36",
            f"{broker.name} takes {key} up to {segments[-1].next_offset} for older than "
            f"{self.cluster.options.retention_ms} ms, and it is {youngest_ms} ms old",
        )

    def check_leap_is_told(self, broker: BrokerNode, controller_wall_ms: int, sent_ms: int) -> None:
        """L7 (alarms clear): a broker that heard the controller's time just now knows when one of the two is
        far off."""
        off_ms = broker.clock.wall_ms - controller_wall_ms
        if broker.now_ms - sent_ms > ANSWER_MS_MAX:
            return  # somebody slept meanwhile
        if abs(off_ms) > 2 * LEAP_MS_MIN and broker.time.leap() is None:
            raise Violation(
                "L7", f"{broker.name} is {off_ms} ms ahead of the controller, and raises no alarm"
            )

    # --- ZooKeeper --------------------------------------------------------------------------------------

    def on_zookeeper_write(self, session: str, controller_epoch: int) -> None:
        """I5, and of every partition that this write changed I6, I7, I1 and I2. What changed is found by the
        identity of values, so that a write which bypasses the model's own path is seen as well."""
        cluster = self.cluster
        if controller_epoch != cluster.zookeeper.nodes["controller_epoch"].value:
            raise Violation("I5", f"{session} wrote under controller epoch {controller_epoch}")
        if self._is_back:
            return
        if cluster.zookeeper.histories > self._histories:
            # Epochs of the lost history that no broker was told of never were.
            self._histories = cluster.zookeeper.histories
            self._partition_epochs.clear()
            self._leaders.clear()
        cluster.operator.notice_deletions()
        for key in cluster.keys:
            state = cluster.truth(key)
            if state is None:
                continue
            before = self._partition_epochs.get(key, -1)
            if state.partition_epoch < before:
                raise Violation("I6", f"{key} partition epoch went from {before} to {state.partition_epoch}")
            if state.partition_epoch > before:
                if state.unclean_leader_epoch > self.conceded.get(key, (-1, 0))[0]:
                    self._on_unclean_election(key, state)
                self._partition_epochs[key] = state.partition_epoch
                self.isr_changes += 1
                if state.leader != NO_LEADER:
                    other = self._leaders.setdefault((key, state.leader_epoch), state.leader)
                    if other != state.leader:
                        raise Violation(
                            "I7", f"{key} leader epoch {state.leader_epoch}: {other} and {state.leader}"
                        )
                self._check_apart(key, state)
                self._check_candidates(key, state)
                if state.leader != NO_LEADER:
                    replica = cluster.brokers[state.leader].replicas.get(key)
                    if replica is not None:
                        self._check_quorum_superset(key, state, replica)

    def _check_apart(self, key: PartitionKey, state: PartitionState) -> None:
        """I38: while a partition moves it may be on two workers of a host, but it is not to stay there."""
        members = self.cluster.options.members
        owners = [members[broker_id] or broker_id for broker_id in state.target_replicas]
        if len(set(owners)) < len(owners):
            raise Violation("I38", f"{key} is to be on {state.target_replicas}: two are of one host")

    def concede(self, key: PartitionKey) -> None:
        """From now on an unclean election of this partition is what the operator asked for."""
        self.conceded.setdefault(key, (-1, 0))

    def choose(self, key: PartitionKey) -> None:
        """The operator elects a leader of this partition by hand, because no rule proves which replica holds
        everything (11.4, recovery). One of them does, so nothing is excused."""
        self.chosen.setdefault(key, -1)

    def _on_unclean_election(self, key: PartitionKey, state: PartitionState) -> None:
        """Cut the ghost to what the chosen log shares with it: the rest is lost."""
        if key not in self.conceded and state.unclean_leader_epoch <= self.chosen.get(key, -2):
            return
        ghost = self.ghosts[key]
        if key not in self.conceded and key not in self.chosen:
            raise Violation("I10", f"{key} an unclean election that nobody asked for: {state}")
        log = self.cluster.brokers[state.leader].disk.logs[key]
        kept = ghost.from_offset(log.log_start_offset)  # what it deleted is not compared
        held = headers_of(log, log.log_start_offset, log.log_end_offset)
        kept, _ = unlike(ghost.headers, kept, held, compacted_to=log.rounds.compacted_to)
        if log.log_end_offset < log.rounds.whole_from:
            self.torn.add(key)
        if key not in self.conceded:
            if kept < len(ghost.headers):
                raise Violation(
                    "I10", f"{key} the operator chose a log that lacks committed records: {state}"
                )
            self.chosen[key] = state.unclean_leader_epoch
            return
        self._give_up(key, kept, leader_epoch=state.unclean_leader_epoch)

    def on_disk_lied(self, key: PartitionKey, end_offset: int) -> None:
        """Whoever may lead has lost without a word what lies beyond: more than any promise covers. What
        is watched from here on is whether the others keep it."""
        state = self.cluster.truth(key)
        assert state is not None
        self._give_up(key, self.ghosts[key].from_offset(end_offset), leader_epoch=state.leader_epoch + 1)

    def _give_up(self, key: PartitionKey, kept: int, *, leader_epoch: int) -> None:
        """Cut the ghost; a log that knows nothing of that leader epoch yet may still hold the rest."""
        ghost = self.ghosts[key]
        self._lost.update((key, committed.content) for committed in ghost.batches[kept:])
        del ghost.headers[kept:], ghost.batches[kept:], ghost.data[kept:]
        ghost.end_offset = ghost.headers[-1].next_offset if kept else 0
        self.conceded[key] = (leader_epoch, ghost.end_offset)
        for place, verified in self._verified.items():
            if place[1] == key:
                self._verified[place] = min(verified, ghost.end_offset)

    # --- clients ----------------------------------------------------------------------------------------

    def on_deletion_begun(self, key: PartitionKey, before_offset: int) -> None:
        """A leader took a client's deletion: its records may be gone from now on, and none above."""
        self.deletable[key] = max(self.deletable.get(key, 0), before_offset)

    def place_of(self, key: PartitionKey, producer_id: int, sequence: int) -> int:
        """Return the first offset at which a producer's batch was committed, -1 if it never was."""
        return next(
            (
                batch.base_offset
                for batch in self.ghosts[key].batches
                if batch.content[:2] == (producer_id, sequence)
            ),
            -1,
        )

    def on_minimum_asked(self, topic: str, minimum: int) -> Callable[[Any], None]:
        """Return what takes the answer: from it on nothing is committed below the minimum, until another is
        asked for, which may hold at once."""
        self.minimums.pop(topic, None)
        self._minimums_asked += 1
        number = self._asked_last[topic] = self._minimums_asked

        def told(reply: Any) -> None:
            if isinstance(reply, TopicConfigured) and self._asked_last[topic] == number:
                self.cluster.marks.reached("minimum.in.force")
                self.minimums[topic] = minimum

        return told

    def on_deleted(self, key: PartitionKey, low_watermark: int) -> None:
        """A client was told that everything below is deleted."""
        self.cluster.marks.reached("deletion.done")
        self.deleted[key] = max(self.deleted.get(key, 0), low_watermark)
        state = self.cluster.truth(key)
        if state is not None and not self._is_back:
            self._check_candidates(key, state)

    def check_ack(self, key: PartitionKey, content: Content, base_offset: int) -> None:
        """I4: what acks=all acknowledges is committed, where the answer says."""
        ghost = self.ghosts[key]
        if base_offset < 0:
            known = any(committed.content == content for committed in ghost.batches)
        else:
            index = ghost.from_offset(base_offset)
            known = (
                index < len(ghost.batches)
                and ghost.batches[index].base_offset == base_offset
                and ghost.batches[index].content == content
            )
        if not known and (key, content) not in self._lost:
            raise Violation("I4", f"{key} acknowledged offset {base_offset}, which is not committed")

    def check_name(self, state: PartitionState | None, error: ErrorCode, holder: str | None) -> None:
        """I39: nothing is acknowledged in a topic whose name another had already when it was written.
        holder: the topic that had the name then."""
        if (
            state is not None
            and error is ErrorCode.NONE
            and holder not in (None, state.topic_id)
            and not self.cluster.zookeeper.times_back
        ):
            raise Violation("I39", f"{state.topic} {state.topic_id[:4]} acknowledged, but it was made again")

    def check_read(
        self, key: PartitionKey, offset: int, headers: Sequence[BatchHeader], high_watermark: int
    ) -> None:
        """I18: a consumer sees committed batches and nothing else, without a gap."""
        ghost = self.ghosts[key]
        if high_watermark > ghost.end_offset:
            raise Violation("I18", f"{key} told a consumer of high watermark {high_watermark}")
        if not headers:
            return
        compacted_to = ghost.end_offset if self.cluster.options.compacted else 0
        _, wrong = unlike(ghost.headers, ghost.from_offset(offset), headers, compacted_to=compacted_to)
        if wrong is not None:
            raise Violation("I18", f"{key} gave a consumer {committed_of(wrong)} at {offset}")

    # --- checks -----------------------------------------------------------------------------------------

    def _check_matching(self, broker_id: int, log: Any, key: PartitionKey, end_offset: int) -> None:
        """I13 through the ghost: below its high watermark every replica holds exactly what was committed."""
        ghost = self.ghosts[key]
        place = (broker_id, key)
        verified = max(self._verified.get(place, 0), log.log_start_offset)
        log_end = log.log_end_offset
        if verified > log_end:  # truncated since: what follows is new
            verified = self._verified[place] = log_end
        end_offset = min(end_offset, ghost.end_offset, log_end)
        if key in self.conceded and log.epochs.latest < self.conceded[key][0]:
            end_offset = min(end_offset, self.conceded[key][1])  # it is still to cut what was given up
        if verified >= end_offset:
            return
        index, wrong = unlike(
            ghost.headers,
            ghost.from_offset(verified),
            headers_of(log, verified, end_offset),
            compacted_to=log.rounds.compacted_to,
        )
        if wrong is not None:
            expected = ghost.batches[index] if index < len(ghost.batches) else None
            raise Violation(
                "I13", f"{key} on broker {broker_id}: {committed_of(wrong)}, where {expected} was committed"
            )
        self._verified[place] = end_offset

    def on_log_replaced(self, broker_id: int) -> None:
        """Another disk, or an earlier copy of this one: nothing on it has been looked at."""
        for place in self._verified:
            if place[0] == broker_id:
                self._verified[place] = 0

    def _check_candidates(self, key: PartitionKey, state: PartitionState) -> None:
        """I1: whoever may be elected and is up holds every committed record. Of a topic that is being deleted
        nobody is elected any more, and each replica deletes its log when it hears of it."""
        ghost = self.ghosts[key]
        if not ghost.end_offset or key not in self.cluster.living:
            return
        cluster = self.cluster
        for broker_id in (*state.isr, *state.elr):
            broker = cluster.brokers[broker_id]
            if not broker.is_up or broker.broker_epoch != cluster.registered_epoch(broker_id):
                continue
            log = broker.disk.held(key)
            end_offset = 0 if log is None else log.log_end_offset
            if broker.is_resumed or (broker.disk.is_forged and broker_id in state.elr):
                continue  # what it lacks, or holds otherwise, is found out before it counts or leads
            if end_offset < ghost.end_offset:
                raise Violation(
                    "I1",
                    f"{key} broker {broker_id} is in isr {state.isr} elr {state.elr} with log end "
                    f"{end_offset}, but {ghost.end_offset} was committed",
                )
            self._check_matching(broker_id, log, key, ghost.end_offset)
            if key in self.conceded or key in self.chosen or log is None:
                continue
            start_offset = log.log_start_after_crash
            if start_offset < self.deleted.get(key, 0):
                raise Violation(
                    "I37",
                    f"{key} broker {broker_id} is in isr {state.isr} elr {state.elr} and may begin at "
                    f"{start_offset}, but all below {self.deleted[key]} was deleted",
                )

    def _check_quorum_superset(self, key: PartitionKey, state: PartitionState, replica: Replica) -> None:
        """I2: the leader may be stricter than the controller, never laxer."""
        leader = replica.leading
        if leader is None or leader.leader_epoch != state.leader_epoch:
            return
        if self.cluster.brokers[state.leader].is_resumed:
            return  # what it knew of the in-sync set went back, too; what it commits is checked by I1
        held = leader.in_sync.state
        pending = leader.in_sync.pending
        checked = self._superset_checked.get(key)
        if checked is not None and checked[0] is state and checked[1] is held and checked[2] is pending:
            return
        if len(held.isr) >= held.min_insync_replicas:
            maximal = leader.maximal_isr
            missing = [b for b in (*state.isr, *state.elr) if b not in maximal]
            if missing:
                raise Violation(
                    "I2",
                    f"{key} leader {state.leader} does not wait for {missing}: maximal {maximal}, "
                    f"controller isr {state.isr} elr {state.elr}",
                )
        self._superset_checked[key] = (state, held, pending)

    def _check_lease(self, broker: BrokerNode) -> None:
        """2.9: it counts from when the last heartbeat that was answered was sent."""
        if not broker.lease.is_held(broker.now_ms):
            return
        held_ms = self.cluster.events.now_ms - broker.heard_ms
        if held_ms > self.cluster.options.lease_ms * CLOCK_SLACK:
            raise Violation(
                "2.9",
                f"broker {broker.broker_id} holds its lease {held_ms} ms after it sent the heartbeat that "
                "was answered last",
            )

    def _check_quiet(self, broker: BrokerNode, key: PartitionKey, replica: Replica) -> None:
        """2.9: longer than a lease after another began to lead, and after the last heartbeat that counts was
        sent, a leader of an earlier epoch answers nothing, whatever its followers sent it. (While it has its
        lease it may be as stale as its metadata stream is slow.)"""
        if key in self.conceded or not replica.role.may_serve(broker.now_ms):
            return
        for began in self._began[key]:
            if began.leader_epoch > replica.leader_epoch and began.leader != broker.broker_id:
                break
        else:
            return
        since_ms = max(began.at_ms, broker.heard_ms)
        silent_ms = self.cluster.events.now_ms - since_ms
        if silent_ms > self.cluster.options.lease_ms * CLOCK_SLACK:
            raise Violation(
                "2.9",
                f"{key} broker {broker.broker_id} would answer for leader epoch {replica.leader_epoch} "
                f"{silent_ms} ms after broker {began.leader} began to lead in {began.leader_epoch}",
            )

    # --- the end ----------------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Everything acknowledged is in every replica, once, in each producer's order (I13, I23, I24)."""
        cluster = self.cluster
        for key in cluster.keys:
            ghost = self.ghosts[key]
            contents = [committed.content for committed in ghost.batches]
            known = [content for content in contents if content.producer_id >= 0 <= content.base_sequence]
            if len(known) != len(set(known)):
                raise Violation("I23", f"{key} holds a batch twice")
            where: dict[Content, int] = {}
            for position, content in enumerate(contents):
                where.setdefault(content, position)
            for producer in cluster.producers:
                if producer.key != key or producer.acks != -1:
                    continue
                acked = sorted(
                    (each for each in producer.acked if (key, each[1]) not in self._lost),
                    key=lambda each: each[1].base_sequence,
                )
                positions = [where[content] for _, content in acked if content in where]
                if len(positions) != len(acked):
                    raise Violation("I24", f"{key} lost an acknowledged batch of {producer.name}")
                if producer.is_idempotent and positions != sorted(positions):
                    raise Violation("I24", f"{key} reordered {producer.name}")
            state = cluster.truth(key)
            assert state is not None
            for broker_id in state.replicas:
                log = cluster.brokers[broker_id].disk.logs[key]
                # A deletion that was not answered may have come to some replicas only.
                start = log.log_start_offset
                held = headers_of(log, start, log.log_end_offset)
                count, wrong = unlike(
                    ghost.headers, ghost.from_offset(start), held, compacted_to=log.rounds.compacted_to
                )
                if wrong is not None or count != len(ghost.headers):
                    raise Violation("I13", f"{key} broker {broker_id} differs at the end")
                if at_rest := getattr(log, "at_rest", None) or getattr(log, "rotten", None):
                    raise Violation("5.7", f"{key} broker {broker_id} is rotten at {sorted(at_rest)}")
            self._check_producers(key, state)
            if cluster.options.compacted:
                check_equal(cluster, key, state.replicas)

    def _check_producers(self, key: PartitionKey, state: PartitionState) -> None:
        """I23: each replica that may lead knows the producers that the leader knows, those of deleted records
        among them."""
        if key in self.conceded or key in self.chosen:
            return
        known = {
            broker_id: {
                (producer.producer_id, producer.last_sequence)
                for producer in self.cluster.brokers[broker_id].disk.logs[key].producers.active_producers()
            }
            for broker_id in state.isr
        }
        for broker_id in state.isr:
            if broker_id in self.resumed:
                continue
            if unknown := known[state.leader] - known[broker_id]:
                raise Violation("I23", f"{key} broker {broker_id} knows nothing of {sorted(unknown)}")


def headers_of(log: Any, offset: int, end_offset: int) -> Sequence[BatchHeader]:
    """Of the whole batches of a log in [offset, end_offset)."""
    if (headers := getattr(log, "headers", None)) is not None:
        known: Sequence[BatchHeader] = headers(offset, end_offset)
        return known
    found: list[BatchHeader] = []
    while offset < end_offset:
        piece = log.read(offset, max_bytes=1 << 20, end_offset=end_offset)
        if not piece.size_bytes:
            break
        for part in piece.parts:
            assert isinstance(part, memoryview)
            found.extend(header for _, header in iter_headers(part))
        offset = piece.next_offset
    return found


__all__ = [
    "Committed",
    "Content",
    "Ghost",
    "Oracle",
    "Violation",
    "committed_of",
    "content_of",
    "headers_of",
]
