"""Three replicas, a toy controller and a network that delays, repeats and loses, driven by one random seed.

After every step the promise is checked against a ghost: the longest prefix that any leader ever called
committed. No real time, no leases (every broker believes that it may serve): what holds here rests on epochs
and sets alone. The controller follows the rules of the real one as far as they matter to durability: compare
and set on the partition epoch, eligible leaders (KIP-966), exclusion of a lossy restart before its new broker
epoch is usable, refused proposal ids stay refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import NamedTuple

import msgspec

from dataplane.core.effects import (
    CompleteDeletion,
    CompleteProduce,
    CopyDivergent,
    Effects,
    HighWatermarkMoved,
    LogStartMoved,
    ReportProblem,
)
from dataplane.core.fetch import ReplicaFetch
from dataplane.core.leader import Leader
from dataplane.core.replica import Replica
from dataplane.core.results import LeaderAnswer, ReplicaOptions
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import IsrProposal, IsrProposalResult
from springtide.contract.partition_state import NO_LEADER, PartitionState
from springtide.contract.updates import BrokerEndpoint
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader, decode_header
from tests.kit.dataplane.replica import TOPIC_ID, WALL_MS, batch_of, endpoint, held_lease, partition_state
from tests.kit.memory.log import MemoryLog

BROKERS = (1, 2, 3)
MIN_ISR = 2
PRODUCER_ID = 7


class Violation(AssertionError):
    """A promise is broken."""


class Mark(NamedTuple):
    """The identity of a batch: position, epoch, content."""

    next_offset: int
    leader_epoch: int
    crc: int


def mark_of(header: BatchHeader) -> Mark:
    return Mark(header.next_offset, header.leader_epoch, header.crc)


class ToyController:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.state = partition_state(leader=1, isr=BROKERS, min_insync_replicas=MIN_ISR)
        self.epochs = {b: b for b in BROKERS}
        self.alive = dict.fromkeys(BROKERS, True)
        self.version = count(1)
        self._broker_epochs = count(100)

    def endpoints(self) -> dict[int, BrokerEndpoint]:
        return {b: endpoint(b, self.epochs[b], active=self.alive[b]) for b in BROKERS}

    def fence(self, broker_id: int) -> None:
        self.alive[broker_id] = False
        state = self.state
        if broker_id in state.isr or broker_id == state.leader:
            leader = NO_LEADER if broker_id == state.leader else state.leader
            self._change(isr=[b for b in state.isr if b != broker_id], leader=leader)
        self.elect()

    def register(self, broker_id: int, *, is_intact: bool) -> int:
        """A new incarnation. One that can't vouch for its bytes is out of ISR and ELR before anything else
        can happen to it (I11, unproven logs lose their seats first)."""
        self.fence(broker_id)
        if not is_intact:
            state = self.state
            if broker_id in state.isr + state.elr:
                self._change(
                    isr=[b for b in state.isr if b != broker_id],
                    leader=NO_LEADER if state.leader == broker_id else state.leader,
                    excluded=broker_id,
                )
        self.epochs[broker_id] = next(self._broker_epochs)
        self.alive[broker_id] = True
        self.elect()
        return self.epochs[broker_id]

    def elect(self) -> None:
        state = self.state
        if state.leader != NO_LEADER:
            return
        from_isr = [b for b in state.isr if self.alive[b]]
        from_elr = [b for b in state.elr if self.alive[b]]
        if from_isr:
            self._change(isr=from_isr, leader=self.random.choice(from_isr))
        elif from_elr:
            leader = self.random.choice(from_elr)
            self._change(isr=[leader], leader=leader)

    def move_leader(self, *, to: int | None = None) -> None:
        """A preferred election, or only a new epoch for the same leader."""
        state = self.state
        candidates = [b for b in state.isr if self.alive[b] and to in (None, b)]
        if candidates and state.leader != NO_LEADER:
            self._change(isr=list(state.isr), leader=self.random.choice(candidates), is_bumped=True)

    def propose(self, proposal: IsrProposal, *, sender: int, broker_epoch: int) -> IsrProposalResult:
        state = self.state

        def answer(error: ControllerError) -> IsrProposalResult:
            return IsrProposalResult(
                topic_id=TOPIC_ID,
                partition=0,
                proposal_id=proposal.proposal_id,
                error=error,
                state=self.state,
            )

        proposed = [member.broker_id for member in proposal.isr]
        if broker_epoch != self.epochs[sender]:
            return answer(ControllerError.STALE_BROKER_EPOCH)
        if proposal.leader_epoch != state.leader_epoch or sender != state.leader:
            return answer(ControllerError.FENCED_LEADER_EPOCH)
        if proposed == list(state.isr):
            return answer(ControllerError.NONE)
        if proposal.partition_epoch != state.partition_epoch:
            return answer(ControllerError.INVALID_UPDATE_VERSION)
        if any(
            member.broker_id not in state.isr
            and not (self.alive[member.broker_id] and self.epochs[member.broker_id] == member.broker_epoch)
            for member in proposal.isr
        ):
            self._change(isr=list(state.isr), leader=state.leader)  # every copy of it is stale from here on
            return answer(ControllerError.INELIGIBLE_REPLICA)
        assert sender in proposed
        self._change(isr=proposed, leader=state.leader)
        return answer(ControllerError.NONE)

    def _change(
        self, *, isr: list[int], leader: int, excluded: int | None = None, is_bumped: bool = False
    ) -> None:
        state = self.state
        elr: list[int] = []
        if len(isr) < MIN_ISR:
            elr = [b for b in BROKERS if b in {*state.isr, *state.elr} and b not in isr and b != excluded]
        self.state = msgspec.structs.replace(
            state,
            isr=tuple(isr),
            elr=tuple(elr),
            leader=leader,
            leader_epoch=state.leader_epoch + (1 if is_bumped or leader != state.leader else 0),
            partition_epoch=state.partition_epoch + 1,
        )


class Node:
    """One broker: what survives it (log, checkpoint) and one life's replica."""

    def __init__(self, broker_id: int, *, lag_ms_max: int) -> None:
        self.broker_id = broker_id
        self.lag_ms_max = lag_ms_max
        self.log = MemoryLog()
        self.checkpoint = 0
        self.life = 0
        self.is_up = True
        self.is_lossy = False  # has lost bytes and not registered since
        self.broker_epoch = broker_id
        self.begin_life(broker_id)

    def begin_life(self, broker_epoch: int) -> None:
        self.life += 1
        self.is_up = True
        self.is_log_start_moved = False
        self.broker_epoch = broker_epoch
        self.brokers: dict[int, BrokerEndpoint] = {}
        self.brokers_version = 0
        self.replica = Replica(
            broker_id=self.broker_id,
            topic_id=TOPIC_ID,
            partition=0,
            log=self.log,
            lease=held_lease(),
            brokers=self.brokers,
            options=ReplicaOptions(
                lag_ms_max=50, proposal_retry_ms=20, refused_retry_ms=20, copy_retry_ms=50
            ),
            checkpointed=self.checkpoint,
        )


class MiniCluster:
    """`log`: what happened, to understand a violation."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.controller = ToyController(self.random)
        lag_ms_max = self.random.choice((50, 1_000))
        self.nodes = {b: Node(b, lag_ms_max=lag_ms_max) for b in BROKERS}
        self.network: list[tuple[str, Callable[[], None]]] = []
        self.now_ms = 1_000
        self.ghost: dict[int, Mark] = {}
        self.ghost_end = 0
        self.next_sequence = 0
        self.is_sent = False
        self.acked: list[int] = []
        self.deleted_to = 0
        self.log: list[str] = []
        self.reached: set[str] = set()
        self.steps, self.weights = self._mix()

    # Steps.

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += self.random.choice((0, 1, 5, 20))
            self._step()
            self.check()
        self.settle()

    def _mix(self) -> tuple[list[Callable[[], None]], list[float]]:
        """Every seed has its own mixture (swarm testing): rare combinations need lopsided runs."""
        steps: tuple[tuple[float, Callable[[], None]], ...] = (
            (60, self._deliver),
            (20, self._send_fetch),
            (20, self._do_promptly(self.send_fetch)),
            (5, self._do_promptly(self.push)),
            (5, self._do_promptly(self.report)),
            (14, self._produce),
            (10, self._push),
            (8, self._report),
            (4, self._tick),
            (3, self._fence_dead),
            (1.5, self.controller.move_leader),
            (2, self._checkpoint),
            (1, self._crash),
            (4, self._restart),
            (0.5, self._delete_records),
            (0.7, self._bounce_behind_the_leaders_back),
        )
        weights = [weight * self.random.choice((0.5, 1, 1, 2)) for weight, _ in steps]
        return [step for _, step in steps], weights

    def _step(self) -> None:
        self.random.choices(self.steps, self.weights)[0]()

    def _deliver(self) -> None:
        if not self.network:
            return
        index = self.random.randrange(len(self.network))
        if self.random.random() < 0.8:  # mostly in order, or little would ever get done
            index = min(index, 2)
        fate = self.random.random()
        name, call = self.network[index]
        if fate < 0.85:
            self.network.pop(index)
        if fate < 0.05:
            return  # lost
        self.log.append(f"{self.now_ms} {name}")
        call()

    def _post(self, name: str, call: Callable[[], None]) -> None:
        if len(self.network) < 60:
            self.network.append((name, call))

    def _do_promptly(self, send: Callable[[Node], None]) -> Callable[[], None]:
        """A message and its answer, ahead of all that are under way: without these, faults would come
        faster than anything recovers from them."""

        def step() -> None:
            node = self._some_node()
            if node is not None:
                elsewhere, self.network = self.network, []
                send(node)
                self._drain()
                self.network = elsewhere

        return step

    def _some_node(self) -> Node | None:
        up = [n for n in self.nodes.values() if n.is_up]
        return self.random.choice(up) if up else None

    def _send_fetch(self) -> None:
        node = self._some_node()
        if node is not None:
            self.send_fetch(node)

    def send_fetch(self, node: Node) -> None:
        position = node.replica.next_fetch()
        state = node.replica.state
        if position is None or state is None:
            return
        leader = self.nodes[state.leader]
        life, broker_epoch = node.life, node.broker_epoch

        def arrive() -> None:
            if not leader.is_up:
                return
            max_bytes = self.random.choice((1, 150, 10_000))
            fetch = ReplicaFetch(node.broker_id, BrokerEpoch(broker_epoch), position, max_bytes)
            result, effects = leader.replica.role.on_replica_fetch(fetch, now_ms=self.now_ms)
            self.carry_out(leader, effects)
            if result.diverging is not None:
                self.reached.add("diverging")
            fetched = LeaderAnswer(
                error=result.error,
                high_watermark=result.high_watermark,
                log_start_offset=result.log_start_offset,
                diverging=result.diverging,
                records=b""
                if result.records is None
                else b"".join(bytes(p) for p in result.records.parts if isinstance(p, memoryview)),
                producers=result.producers,
            )

            def answered() -> None:
                follower = node.replica.following
                if node.is_up and node.life == life and follower is not None:
                    effects = follower.on_fetched(
                        fetched, asked=position, now_ms=self.now_ms, wall_ms=WALL_MS
                    )
                    self.carry_out(node, effects)

            self._post(
                f"{leader.broker_id} answers fetch@{position.fetch_offset} LE{position.leader_epoch} of "
                f"{node.broker_id}: {result.error.name} {result.diverging or ''}",
                answered,
            )

        self._post(f"{node.broker_id} fetches @{position.fetch_offset} LE{position.leader_epoch}", arrive)

    def _produce(self) -> None:
        leaders = [n for n in self.nodes.values() if n.is_up and isinstance(n.replica.role, Leader)]
        if not leaders:
            return
        node = self.random.choice(leaders)
        if self.random.random() < 0.5:  # another client's record, without a sequence
            self._append(node, batch_of([b"x"] * self.random.randint(1, 3)), None)
        elif not self.is_sent or self.random.random() < 0.3:  # first try, or a client's timeout
            self.is_sent = True
            sequence = self.next_sequence
            data = batch_of(
                [b"%d" % sequence], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
            )
            self._append(node, data, sequence)

    def _append(self, node: Node, data: bytes, sequence: int | None) -> None:
        result, effects = node.replica.role.append(
            decode_header(data),
            memoryview(data),
            acks=-1,
            waiter=sequence,
            expires_ms=self.now_ms + 500,
            now_ms=self.now_ms,
            wall_ms=WALL_MS,
        )
        self.log.append(
            f"{self.now_ms} produce {sequence} at {node.broker_id}: {result.error.name} @{result.base_offset}"
        )
        if result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Only an isolated leader that missed what was acknowledged elsewhere may say so.
            if node.replica.leader_epoch == self.controller.state.leader_epoch:
                raise Violation(f"I23: sequence {sequence} out of order at the leader")
            self.is_sent = False
        elif result.error is not ErrorCode.NONE:
            self.is_sent = False
        self.carry_out(node, effects)
        if result.error is ErrorCode.NONE and not result.is_waiting:
            self._acked(sequence)

    def _acked(self, sequence: int | None) -> None:
        if sequence is not None and sequence == self.next_sequence:
            self.acked.append(sequence)
            self.next_sequence += 1
            self.is_sent = False

    def _push(self) -> None:
        """Send the latest state to a broker: states between are coalesced; it may still be overtaken."""
        self.push(self.nodes[self.random.choice(BROKERS)])

    def push(self, node: Node) -> None:
        state = self.controller.state
        endpoints = self.controller.endpoints()
        version = next(self.controller.version)
        life = node.life

        def arrive() -> None:
            if not node.is_up or node.life != life:
                return
            changed = []
            if version > node.brokers_version:
                node.brokers_version = version
                changed = [b for b in BROKERS if node.brokers.get(b) != endpoints[b]]
                node.brokers.update(endpoints)
            for broker_id in changed:
                if (leader := node.replica.leading) is not None:
                    self.carry_out(node, leader.on_broker_changed(broker_id, now_ms=self.now_ms))
            self.apply(node, state)

        self._post(f"push LE{state.leader_epoch} PE{state.partition_epoch} to {node.broker_id}", arrive)

    def apply(self, node: Node, state: PartitionState) -> None:
        before = node.replica.leader_epoch
        if isinstance(node.replica.role, Leader) and state.leader_epoch > before + 1:
            self.reached.add("coalesced epochs at a leader")
        self.carry_out(node, node.replica.on_partition_state(state, now_ms=self.now_ms))

    def _report(self) -> None:
        node = self._some_node()
        if node is not None:
            self.report(node)

    def report(self, node: Node) -> None:
        leader = node.replica.leading
        proposal = None if leader is None else leader.due_proposal(self.now_ms)
        if proposal is None:
            return
        life, broker_epoch = node.life, node.broker_epoch

        def arrive() -> None:
            result = self.controller.propose(proposal, sender=node.broker_id, broker_epoch=broker_epoch)
            self.reached.add(f"proposal {result.error.value}")

            def answered() -> None:
                if node.is_up and node.life == life:
                    self.carry_out(node, node.replica.on_proposal_result(result, now_ms=self.now_ms))

            self._post(f"proposal {proposal.proposal_id} of {node.broker_id}: {result.error}", answered)

        members = [m.broker_id for m in proposal.isr]
        self._post(f"{node.broker_id} proposes {members} on PE{proposal.partition_epoch}", arrive)

    def _tick(self) -> None:
        node = self._some_node()
        if node is not None:
            self.carry_out(node, node.replica.role.on_tick(self.now_ms))

    def _fence_dead(self) -> None:
        for node in self.nodes.values():
            if not node.is_up and self.controller.alive[node.broker_id]:
                self.controller.fence(node.broker_id)
                return

    def _checkpoint(self) -> None:
        node = self._some_node()
        if node is not None:
            node.checkpoint = node.replica.high_watermark
            node.log.flush()
            self._store_log_start(node)

    def _crash(self) -> None:
        up = [n for n in self.nodes.values() if n.is_up]
        if len(up) < 2:
            return
        node = self.random.choice(up)
        node.is_up = False
        kind = self.random.choice(("kill", "tear", "power", "wipe"))
        if kind in ("power", "wipe") and not self._may_lose(node):
            kind = "kill"
        if kind == "power":
            node.log.crash(self.random)
        elif kind == "wipe":
            node.log.wipe()
            node.checkpoint = 0
        elif kind == "tear":
            torn = batch_of(base_offset=node.log.log_end_offset, leader_epoch=node.replica.leader_epoch)
            node.log.die_in_append(torn[: self.random.randrange(len(torn))])
        node.is_lossy = node.is_lossy or kind in ("power", "wipe")
        self.reached.add(f"crash {kind}")
        self.log.append(f"{self.now_ms} {kind} {node.broker_id}")

    def _may_lose(self, node: Node) -> bool:
        """The promise: as long as one member of the in-sync (or eligible) set keeps its bytes."""
        state = self.controller.state
        return any(b != node.broker_id and not self.nodes[b].is_lossy for b in state.isr + state.elr)

    def _restart(self) -> None:
        down = [n for n in self.nodes.values() if not n.is_up]
        if down:
            self.restart(self.random.choice(down))

    def restart(self, node: Node) -> None:
        node.log.recover()
        broker_epoch = self.controller.register(node.broker_id, is_intact=not node.is_lossy)
        node.is_lossy = False
        node.begin_life(broker_epoch)
        self.log.append(f"{self.now_ms} restart {node.broker_id} BE{broker_epoch}")

    def _bounce_behind_the_leaders_back(self) -> None:
        """S7 (an epoch in between was missed): another leader comes, some follow it and cut their logs, it
        dies; the old one hears nothing of all that but what comes after."""
        state = self.controller.state
        others = [b for b in state.isr if b != state.leader and self.nodes[b].is_up]
        if state.leader == NO_LEADER or not self.nodes[state.leader].is_up or len(others) < 2:
            return
        successor = self.nodes[self.random.choice(others)]
        self.controller.move_leader(to=successor.broker_id)
        elsewhere, self.network = self.network, []
        for broker_id in others:
            self.apply(self.nodes[broker_id], self.controller.state)
        for broker_id in others * 3:
            self.send_fetch(self.nodes[broker_id])
            self._drain()
        self.network = elsewhere
        successor.is_up = False
        self.controller.fence(successor.broker_id)
        self.reached.add("bounced")

    def _delete_records(self) -> None:
        node = self._some_node()
        if node is not None and isinstance(node.replica.role, Leader):
            low = node.log.log_start_offset
            if node.replica.high_watermark > low:
                to = self.random.randint(low, node.replica.high_watermark)
                self.delete_records(node, to)

    def delete_records(self, node: Node, to: int) -> None:
        self.log.append(f"{self.now_ms} delete below {to} at {node.broker_id}")
        result, effects = node.replica.role.delete_records(
            to, waiter=to, expires_ms=self.now_ms + 500, now_ms=self.now_ms
        )
        if result.error is ErrorCode.NONE and not result.is_waiting:
            self._deleted_to(to)
        self.carry_out(node, effects)

    def _deleted_to(self, offset: int) -> None:
        self.deleted_to = max(self.deleted_to, offset)
        self.reached.add("deleted")

    def _store_log_start(self, node: Node) -> None:
        if node.is_up and node.is_log_start_moved:
            node.is_log_start_moved = False
            offset = node.log.log_start_offset
            node.log.store_log_start(offset)
            self.carry_out(node, node.replica.role.on_log_start_stored(offset, now_ms=self.now_ms))

    def carry_out(self, node: Node, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, CompleteProduce):
                for waiter in effect.waiters:
                    assert waiter is None or isinstance(waiter, int)
                    if effect.error is ErrorCode.NONE:
                        self._acked(waiter)
                    elif waiter == self.next_sequence:
                        self.is_sent = False
            elif isinstance(effect, CompleteDeletion):
                for waiter in effect.waiters:
                    assert isinstance(waiter, int)
                    if effect.result.error is ErrorCode.NONE:
                        self._deleted_to(waiter)
            elif isinstance(effect, LogStartMoved):
                node.is_log_start_moved = True
            elif isinstance(effect, HighWatermarkMoved) and isinstance(node.replica.role, Leader):
                self._check_watermark(node)
            elif isinstance(effect, CopyDivergent):
                self._copy_divergent(node, effect)
            elif isinstance(effect, ReportProblem):
                self.reached.add(effect.problem.code)
                if effect.problem.code == "quarantined":
                    raise Violation(f"I15: {node.broker_id} {effect.problem}")

    def _copy_divergent(self, node: Node, aside: CopyDivergent) -> None:
        life = node.life

        def written() -> None:
            if node.is_up and node.life == life:
                error = "disk full" if self.random.random() < 0.1 else None
                if (follower := node.replica.following) is not None:
                    done = follower.on_divergent_copied(aside.hold_id, error=error, now_ms=self.now_ms)
                    self.carry_out(node, done)

        self._post(f"{node.broker_id} wrote aside", written)

    # Promises.

    def check(self) -> None:
        for node in sorted(self.nodes.values(), key=lambda n: not isinstance(n.replica.role, Leader)):
            if node.is_up:
                self._check_watermark(node)
        state = self.controller.state
        for broker_id in state.isr + state.elr:
            if not self.nodes[broker_id].is_lossy:
                self._check_holds_committed(self.nodes[broker_id])
                self._check_keeps_deleted(self.nodes[broker_id])
        self._check_superset()

    def _check_watermark(self, node: Node) -> None:
        log, high_watermark = node.log, node.replica.high_watermark
        if not log.log_start_offset <= high_watermark <= log.log_end_offset:
            raise Violation(f"I26: {node.broker_id}")
        if high_watermark > self.ghost_end and not isinstance(node.replica.role, Leader):
            raise Violation(f"a follower's high watermark {high_watermark} leads, {self.ghost_end}")
        for header, _ in log.batches:
            if header.next_offset > high_watermark:
                break
            mark = self.ghost.setdefault(header.base_offset, mark_of(header))
            if mark != mark_of(header):
                raise Violation(f"I13: {node.broker_id} has {mark_of(header)}, committed is {mark}")
        self.ghost_end = max(self.ghost_end, high_watermark)

    def _check_holds_committed(self, node: Node) -> None:
        log = node.log
        if log.log_end_offset < self.ghost_end and node.is_up:
            raise Violation(
                f"I1: {node.broker_id} ends at {log.log_end_offset}, committed is {self.ghost_end}"
            )
        held = {header.base_offset: mark_of(header) for header, _ in log.batches}
        for base_offset, mark in self.ghost.items():
            if base_offset >= log.log_start_offset and held.get(base_offset) != mark:
                raise Violation(
                    f"I1: {node.broker_id} has {held.get(base_offset)} at {base_offset}, committed is {mark}"
                )

    def _check_keeps_deleted(self, node: Node) -> None:
        """Check I37: a replica that may be elected, now or after a crash, begins above what was deleted."""
        start_offset = node.log.log_start_after_crash
        if start_offset < self.deleted_to:
            raise Violation(
                f"I37: {node.broker_id} may begin at {start_offset}, all below {self.deleted_to} was deleted"
            )

    def _check_superset(self) -> None:
        state = self.controller.state
        if state.leader == NO_LEADER or not self.nodes[state.leader].is_up:
            return
        replica = self.nodes[state.leader].replica
        if not isinstance(replica.role, Leader) or replica.leader_epoch != state.leader_epoch:
            return
        assert replica.state is not None
        if len(replica.state.isr) >= MIN_ISR and not {*state.isr, *state.elr} <= {*replica.maximal_isr}:
            raise Violation(f"I2: {state.isr} {state.elr} against {replica.maximal_isr}")

    # The end.

    def settle(self) -> None:
        """Heal everything; then all must converge, with every record of the producer exactly once."""
        self.network.clear()
        for node in self.nodes.values():
            if not node.is_up:
                self.restart(node)
        self.controller.elect()
        for _ in range(60):
            self.now_ms += 40
            for node in self.nodes.values():
                self._store_log_start(node)
                self.push(node)
                self._drain()
                self.carry_out(node, node.replica.role.on_tick(self.now_ms))
                self.report(node)
                self._drain()
                self.send_fetch(node)
                self._drain()
            self.check()
        state = self.controller.state
        if set(state.isr) != set(BROKERS):
            raise Violation(f"L2: in the end only {state.isr} of LE{state.leader_epoch}")
        leader = self.nodes[state.leader]
        for node in self.nodes.values():
            if node.log.log_end_offset != leader.log.log_end_offset:
                raise Violation(f"{node.broker_id} ends at {node.log.log_end_offset}")
            if node.replica.high_watermark != node.log.log_end_offset:
                raise Violation(f"{node.broker_id} commits {node.replica.high_watermark}")
        if self.ghost_end < leader.log.log_end_offset:
            raise Violation("not all committed")
        self._check_sequences()

    def _check_sequences(self) -> None:
        """I23 (no gap, no repeat): what the producer sent stands in the committed log in order, without gap
        or repetition."""
        stored = [sequence for _, sequence in sorted(self._sequences())]
        if stored != list(range(stored[0], stored[0] + len(stored))) if stored else False:
            raise Violation(f"I23: {stored}")
        deleted_up_to = self.nodes[self.controller.state.leader].log.log_start_offset
        if deleted_up_to == 0 and stored[: len(self.acked)] != self.acked:
            raise Violation(f"acknowledged {self.acked}, stored {stored}")

    def _sequences(self) -> Iterator[tuple[int, int]]:
        leader = self.nodes[self.controller.state.leader]
        for header, _ in leader.log.batches:
            if header.producer_id == PRODUCER_ID:
                yield header.base_offset, header.base_sequence

    def _drain(self) -> None:
        while self.network:
            _, call = self.network.pop(0)
            call()
