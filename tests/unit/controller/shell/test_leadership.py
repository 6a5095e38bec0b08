"""One active controller at a time, under an epoch of its own, and authority only while it can be proven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import msgspec
import pytest

from controller.shell.leadership import ACTIVE_PATH, EPOCH_PATH, ClaimRow, EpochRow, Leadership, Term
from controller.shell.meta import Create, Delete, SetData
from springtide.contract.epochs import ControllerEpoch
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import AddressBook, seeded_ids
from tests.kit.memory.zookeeper import LostAnswer, MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio


class Candidate:
    """A controller that does nothing with its terms but keep them."""

    def __init__(
        self, meta: MemoryMeta, clock: VirtualClock, name: str, listeners: AddressBook | None = None
    ) -> None:
        self.meta = meta
        self.terms: list[Term] = []
        self.leadership = Leadership(
            meta=meta,
            clock=clock,
            ids=seeded_ids(sum(name.encode())),
            listeners=listeners if listeners is not None else AddressBook(),
            controller_id=name,
            url=f"http://{name}:8080",
        )

    async def serve(self, term: Term) -> None:
        self.terms.append(term)
        await anyio.sleep_forever()

    async def run(self) -> None:
        await self.leadership.run(self.serve)

    @property
    def epochs(self) -> list[int]:
        return [term.controller_epoch for term in self.terms]


async def settle(seconds: float = 1.0) -> None:
    """Lets virtual time pass."""
    await anyio.sleep(seconds)


async def compete(*candidates: Candidate, then: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as tasks:
        for candidate in candidates:
            tasks.start_soon(candidate.run)
            await settle(0.1)
        await then()
        tasks.cancel_scope.cancel()


async def test_the_first_wins_and_the_second_knows_whom_to_name(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = Candidate(zookeeper.connect(), clock, "c1")
    second = Candidate(zookeeper.connect(), clock, "c2")

    async def then() -> None:
        assert first.epochs == [1] and first.terms[0].has_authority
        assert second.epochs == []
        assert second.leadership.active is not None
        assert second.leadership.active.url == "http://c1:8080"

    await compete(first, second, then=then)


async def test_winning_raises_the_epoch_in_the_write_that_claims(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    candidate = Candidate(zookeeper.connect(), clock, "c1")

    async def then() -> None:
        claims = [
            [op.path for op in write.operations]
            for write in zookeeper.history
            if any(op.path == ACTIVE_PATH for op in write.operations)
        ]
        assert claims == [[EPOCH_PATH, ACTIVE_PATH]]
        epoch = msgspec.json.decode(zookeeper.nodes[EPOCH_PATH].data, type=EpochRow)
        assert epoch == EpochRow(
            controller_epoch=ControllerEpoch(1), controller_id="c1", lineage=candidate.terms[0].lineage
        )
        assert candidate.terms[0].epoch_check.version == zookeeper.nodes[EPOCH_PATH].version

    await compete(candidate, then=then)


async def test_stopping_hands_over_at_once(zookeeper: MemoryZooKeeper, clock: VirtualClock) -> None:
    first = Candidate(zookeeper.connect(), clock, "c1")
    second = Candidate(zookeeper.connect(), clock, "c2")
    stopping = anyio.CancelScope()

    async def run_first() -> None:
        with stopping:
            await first.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_first)
        await settle(0.1)
        tasks.start_soon(second.run)
        await settle(0.1)
        stopping.cancel()
        await settle(0.1)  # Far less than the session timeout.
        assert second.epochs == [2]
        tasks.cancel_scope.cancel()


async def test_a_lost_session_ends_the_term_and_the_next_epoch_is_another(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = Candidate(zookeeper.connect(), clock, "c1")
    second = Candidate(zookeeper.connect(), clock, "c2")

    async def then() -> None:
        first.meta.lose_session()
        await settle()
        assert first.terms[0].end_reason == "the ZooKeeper session was lost"
        assert not first.terms[0].has_authority
        assert second.epochs == [2] and second.terms[0].has_authority

    await compete(first, second, then=then)


async def test_a_lost_connection_suspends_authority_at_once_and_a_new_proof_returns_it(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    candidate = Candidate(zookeeper.connect(), clock, "c1")

    async def then() -> None:
        (term,) = candidate.terms
        candidate.meta.disconnect()
        await settle(0.01)
        assert not term.has_authority
        candidate.meta.reconnect()
        await settle(0.1)
        assert term.has_authority and candidate.epochs == [1]

    await compete(candidate, then=then)


async def test_authority_ends_before_zookeeper_could_give_the_claim_to_another(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """The connection looks open and nothing comes back: a cut cable, or a paused server."""
    candidate = Candidate(zookeeper.connect(timeout_ms=4_000), clock, "c1")

    async def then() -> None:
        (term,) = candidate.terms
        zookeeper.latency_ms = 10_000_000
        await settle(2.0)
        assert term.has_authority
        await settle(1.5)  # 3.5 s after the last proof at most: less than the session timeout.
        assert not term.has_authority

    await compete(candidate, then=then)


async def test_a_term_goes_on_after_any_time_without_proof_if_its_claim_still_stands(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    """No other controller was elected meanwhile: a new term would only cost every broker a FULL state."""
    candidate = Candidate(zookeeper.connect(), clock, "c1")

    async def then() -> None:
        candidate.meta.disconnect()
        await settle(60)  # The server keeps the session: it was restarted, which gives sessions more time.
        (term,) = candidate.terms
        assert not term.has_authority
        candidate.meta.reconnect()
        await settle()
        assert (candidate.epochs, term.has_authority, term.end_reason) == ([1], True, None)

    await compete(candidate, then=then)


async def test_a_claim_that_was_removed_by_another_ends_the_term(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    candidate = Candidate(zookeeper.connect(), clock, "c1")

    async def then() -> None:
        other = zookeeper.connect()
        await other.start_write([Delete(ACTIVE_PATH, 0)]).outcome()
        await settle(2)
        assert candidate.terms[0].end_reason == "the claim is gone"
        assert candidate.epochs == [1, 2]

    await compete(candidate, then=then)


@pytest.mark.parametrize(("is_applied", "epoch"), [(True, 1), (False, 1)])
async def test_a_claim_whose_answer_was_lost_is_recognised_or_made_again(
    is_applied: bool, epoch: int, zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    preparing = Candidate(zookeeper.connect(), clock, "c0")
    await preparing.leadership._ensure_paths()
    candidate = Candidate(zookeeper.connect(), clock, "c1")
    candidate.meta.faults.append(LostAnswer(is_applied=is_applied))

    async def then() -> None:
        await settle()
        assert candidate.epochs == [epoch]
        assert candidate.terms[0].has_authority
        stored = msgspec.json.decode(zookeeper.nodes[ACTIVE_PATH].data, type=ClaimRow)
        assert stored == candidate.terms[0].claim

    await compete(candidate, then=then)


async def test_a_resigned_term_is_never_resumed_under_its_epoch(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    candidate = Candidate(zookeeper.connect(), clock, "c1")

    async def then() -> None:
        candidate.meta.faults.append(LostAnswer(is_applied=False))  # The withdrawal is lost.
        candidate.terms[0].resign("enough")
        await settle()
        assert candidate.epochs == [1, 2]

    await compete(candidate, then=then)


async def test_a_standby_puts_its_claim_in_the_place_of_one_whose_process_is_proven_dead(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("c1", 8080)
    first = Candidate(zookeeper.connect(), clock, "c1", listeners)
    second = Candidate(zookeeper.connect(), clock, "c2", listeners)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.run)
        await settle(0.1)
        tasks.start_soon(second.run)
        await settle(0.1)
        # SIGKILL: the listener is gone, the session lives on at the server for its timeout.
        first.meta.disconnect()
        listeners.kill("c1", 8080)
        started = anyio.current_time()
        while not second.terms:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(0.001)
        assert anyio.current_time() - started < 0.1
        assert second.epochs == [2]
        took = [type(operation) for operation in zookeeper.history[-1].operations]
        assert took == [SetData, Delete, Create]  # One write, as each waits for a disk.
        tasks.cancel_scope.cancel()


async def test_a_claim_that_came_after_the_dead_ones_is_left_alone(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("c1", 8080)
    names = ("c1", "c2", "c3")
    first, *others = [Candidate(zookeeper.connect(), clock, name, listeners) for name in names]

    async def then() -> None:
        first.meta.disconnect()
        listeners.kill("c1", 8080)
        await settle(0.5)
        assert sorted(epoch for candidate in others for epoch in candidate.epochs) == [2]

    await compete(first, *others, then=then)


async def test_a_listener_that_closes_later_than_the_connection_is_still_a_proof(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("c1", 8080)
    first = Candidate(zookeeper.connect(), clock, "c1", listeners)
    second = Candidate(zookeeper.connect(), clock, "c2", listeners)

    async def then() -> None:
        first.meta.disconnect()
        listeners.end_connections("c1", 8080)
        await settle(0.01)
        listeners.kill("c1", 8080)
        await settle(0.5)
        assert second.epochs == [2]

    await compete(first, second, then=then)


async def test_a_listener_that_was_never_reached_proves_nothing(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("c1", 8080)
    listeners.kill("c1", 8080)  # A wrong URL, or a firewall: refused from the start.
    first = Candidate(zookeeper.connect(), clock, "c1", listeners)
    second = Candidate(zookeeper.connect(), clock, "c2", listeners)

    async def then() -> None:
        await settle(20)
        assert first.epochs == [1] and second.epochs == []

    await compete(first, second, then=then)
