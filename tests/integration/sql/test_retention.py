"""Rows go from the beginning of the chain only; what stays verifies and tells of each time since."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from controller.audit import history, kept_rows, retention, verification
from controller.audit.change import AuditedChange, Entity
from controller.audit.history import AuditedOutcome, Intent, RequestOutcome
from controller.audit.placements import Placement, audited_since_ms, placements_at
from controller.audit.removal import REMOVE_ROWS, Recorded, find_removal
from controller.audit.retention import DAY_MS, HistoryAltered, Retention, remove_old_rows
from controller.audit.verification import MismatchCode, Verification, verify
from controller.database.sql import Database, DatabaseUnavailable
from controller.database.tables import audit, audit_anchors, audit_outcomes
from tests.kit.controller.audited import announced, change, receipt, state, topic_change

pytestmark = pytest.mark.anyio

DAYS = 30
#: A hundred days after the first row, in the middle of a day.
NOW_MS = 100 * DAY_MS + DAY_MS // 2


async def append(store: Database, *changes: AuditedChange, at_ms: int | None = None) -> None:
    """Each written down when it was made, unless another time is given."""
    for one in changes:
        recorded_at_ms = one.at_ms if at_ms is None else at_ms
        await store.write(history.append_changes, changes=[one], recorded_at_ms=recorded_at_ms)


async def ask(store: Database, at_ms: int, *, answered_ms: int | None) -> int:
    intent = Intent(
        cluster="prod",
        action="create_topic",
        entity=Entity.TOPIC,
        entity_id="orders",
        actor="alice",
        reason=None,
        request_id=None,
        at_ms=at_ms,
        body={"name": "orders"},
    )
    audit_id = await store.write(history.append_intent, intent=intent, recorded_at_ms=at_ms)
    if answered_ms is not None:
        outcome = AuditedOutcome(audit_id=audit_id, outcome=RequestOutcome.SUCCEEDED, at_ms=answered_ms)
        await store.write(history.append_outcome, outcome=outcome)
    return audit_id


async def verified(store: Database, **bounds: Any) -> Verification:
    found = await verify(store, "prod", **bounds)
    assert found is not None
    return found


async def remove(store: Database, *, days: int = DAYS, now_ms: int = NOW_MS) -> int:
    return await remove_old_rows(store, "prod", days=days, now_ms=now_ms)


async def newest_removal(store: Database) -> Recorded:
    found = await store.read(find_removal, cluster="prod")
    assert found is not None
    return found


async def seqs(store: Database) -> list[int]:
    statement = sa.select(audit.c.seq).where(audit.c.cluster == "prod").order_by(audit.c.seq)
    return list(await store.read(lambda connection: connection.execute(statement).scalars().all()))


def day(number: int) -> int:
    return number * DAY_MS


async def some_history(store: Database) -> None:
    """seq 1: the topic. 2: partition 0 as it was made; 3: as it is since day 5. 4: partition 1, which never
    changes. 5: a request. 6: partition 0 on day 80."""
    await append(
        store,
        announced(day(1)),
        change(day(1), None, state(0)),
        change(day(5), state(0), state(1, isr=(1, 2))),
        change(day(6), None, state(0, partition=1)),
    )
    await ask(store, day(7), answered_ms=day(7) + 5)
    await append(store, change(day(80), state(1, isr=(1, 2)), state(2)))


async def test_the_oldest_rows_go_and_the_state_at_the_anchor_stays(store: Database) -> None:
    await some_history(store)
    before = await verified(store)
    assert await remove(store) == 1
    # 7: the removal's own row.
    assert await seqs(store) == [1, 3, 4, 6, 7]
    recorded = await newest_removal(store)
    removal = recorded.removal
    assert (removal.last_seq, removal.chain_position, removal.retention_days) == (5, 6, DAYS)
    assert (removal.removed_rows, removal.removed_outcomes, removal.kept_rows) == (2, 1, 3)
    assert (recorded.actor, recorded.at_ms, recorded.is_swept) == ("controller", NOW_MS, True)
    found = await verified(store)
    assert (found.mismatch, found.rows, found.outcomes) == (None, 2, 1)
    assert (found.first_seq, found.last_seq) == (6, 7)
    assert found.removal == recorded
    # The chain goes on from where it was: nothing was hashed anew.
    assert (await verified(store, to_seq=6)).hash == before.hash
    # Another look on the same day finds nothing more.
    assert await remove(store, now_ms=NOW_MS + DAY_MS // 3) == 0


async def test_a_row_says_of_each_removal_who_removed_what_and_when(store: Database) -> None:
    await some_history(store)
    await remove(store)
    await remove(store, now_ms=day(120))
    statement = (
        sa.select(audit, audit_outcomes.c.outcome).join(audit_outcomes).where(audit.c.cause == REMOVE_ROWS)
    )
    rows = await store.read(lambda connection: connection.execute(statement).mappings().all())
    assert [(row["actor"], row["at_ms"], row["outcome"]) for row in rows] == [
        ("controller", NOW_MS, "succeeded"),
        ("controller", day(120), "succeeded"),
    ]
    assert [(row["after"]["removed_rows"], row["after"]["last_seq"]) for row in rows] == [(2, 5), (1, 6)]
    assert rows[1]["after"]["removed_rows_total"] == 3
    assert rows[0]["reason"] == "rows are kept for 30 days"


async def test_nothing_is_removed_before_it_is_old_wherever_its_times_say_so(store: Database) -> None:
    await append(store, announced(day(1)), change(day(2), None, state(0)))
    await append(store, change(day(3), state(0), state(1)), at_ms=day(90))  # written down late
    await append(store, change(day(4), state(1), state(2)), change(day(5), state(2), state(3)))
    assert await remove(store) == 1
    assert (await newest_removal(store)).removal.last_seq == 2
    assert await seqs(store) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]  # the two are the newest of their entities below the anchor


async def test_a_request_stays_until_its_outcome_goes(store: Database) -> None:
    await append(store, announced(day(1)))
    await ask(store, day(2), answered_ms=day(2))
    slow = await ask(store, day(3), answered_ms=None)
    await append(store, change(day(4), None, state(0)), change(day(5), state(0), state(1)))
    outcome = AuditedOutcome(audit_id=slow, outcome=RequestOutcome.SUCCEEDED, at_ms=day(75))
    await store.write(history.append_outcome, outcome=outcome)
    assert await remove(store) == 1
    assert (await newest_removal(store)).removal.last_seq == 2
    assert (await verified(store)).mismatch is None
    assert await remove(store, now_ms=day(110)) == 1
    assert (await newest_removal(store)).removal.last_seq == 5
    assert (await verified(store)).mismatch is None


async def test_what_was_removed_leaves_no_hole_and_is_not_written_again(store: Database) -> None:
    await some_history(store)
    await remove(store)
    truth = [
        announced(day(1)),
        change(day(80), None, state(2)),
        change(day(6), None, state(0, partition=1)),
    ]
    written = await store.write(history.backfill_rows, rows=truth, recorded_at_ms=NOW_MS)
    assert written == 0
    await append(store, change(day(101), state(0, partition=1), state(1, partition=1)))
    statement = sa.select(audit.c.gap_before).order_by(audit.c.seq.desc()).limit(1)
    assert await store.read(lambda connection: connection.execute(statement).scalar_one()) is False


async def test_entities_that_were_gone_by_then_leave_nothing_behind(store: Database) -> None:
    await append(
        store,
        announced(day(1)),
        change(day(1), None, state(0)),
        change(day(2), state(0), None, cause="topic_deleted"),
        topic_change(day(3), 1, "t1", None),
        announced(day(50), "t2", "logs"),
    )
    assert await remove(store) == 1
    assert await seqs(store) == [5, 6]
    assert (await verified(store)).mismatch is None


async def test_the_row_of_an_end_stays_as_long_as_an_older_one_that_was_written_late(
    store: Database,
) -> None:
    await append(store, announced(day(1)), change(day(1), None, state(0)))
    await append(store, change(day(4), state(1), None, cause="topic_deleted"))
    await append(store, change(day(3), state(0), state(1)), at_ms=day(90))
    placed = partial(placements_at, cluster="prod", at_ms=day(95), limit=10)
    assert (await store.read(placed)).items == ()
    await remove(store)
    assert await seqs(store) == [1, 3, 4, 5]
    assert (await store.read(placed)).items == ()
    await remove(store, now_ms=day(130))
    assert (await store.read(placed)).items == ()
    assert (await verified(store)).mismatch is None
    assert 4 not in await seqs(store)


async def test_what_was_before_is_not_known_and_what_was_since_is(store: Database) -> None:
    await some_history(store)
    assert await store.read(audited_since_ms, cluster="prod") == day(1)
    await remove(store)
    since_ms = await store.read(audited_since_ms, cluster="prod")
    assert since_ms == day(7) + 1  # when the last row that went was made
    page = await store.read(placements_at, cluster="prod", at_ms=since_ms, limit=10)
    assert [(item.partition, item.snapshot["partition_epoch"]) for item in page.items] == [(0, 1), (1, 0)]


async def test_a_receipt_says_that_rows_were_removed(store: Database) -> None:
    await append(
        store, change(day(1), None, state(0)), change(day(20), state(0), state(1), operation_id="op_1")
    )
    await append(store, change(day(40), state(1), state(2), operation_id="op_1"))
    whole = await receipt(store, begin_ms=day(10), end_ms=day(50))
    assert (whole.is_covered, whole.removed_before_ms) == (True, None)
    await append(store, change(day(90), state(2), state(3)))
    await remove(store)
    cut = await receipt(store, begin_ms=day(10), end_ms=day(50))
    assert (cut.is_covered, cut.removed_before_ms) == (False, day(40) + 1)
    later = await receipt(store, begin_ms=day(60), end_ms=day(95))
    assert (later.is_covered, later.removed_before_ms) == (True, None)


TAMPERINGS: dict[str, tuple[Any, MismatchCode]] = {
    "a row that stays": (
        lambda: audit.update().where(audit.c.seq == 3).values(actor="mallory"),
        MismatchCode.ALTERED,
    ),
    "one that ought to stay": (lambda: audit.delete().where(audit.c.seq == 3), MismatchCode.UNANCHORED),
    "a number below": (
        lambda: audit.update().where(audit.c.seq == 3).values(chain_position=2),
        MismatchCode.ALTERED,
    ),
    "what the removal says": (
        lambda: audit.update().where(audit.c.seq == 7).values(at_ms=1),
        MismatchCode.ALTERED,
    ),
    "the removal's row": (
        lambda: audit.update().where(audit.c.seq == 7).values(cause="x"),
        MismatchCode.UNANCHORED,
    ),
    "its content": (lambda: audit.update().where(audit.c.seq == 7).values(after={}), MismatchCode.UNANCHORED),
    "the anchor": (audit_anchors.delete, MismatchCode.MISSING),
    "the anchor's row": (lambda: audit_anchors.update().values(audit_id=99), MismatchCode.UNANCHORED),
    "the first entry after it": (lambda: audit.delete().where(audit.c.seq == 6), MismatchCode.MISSING),
}


@pytest.mark.parametrize("what", TAMPERINGS)
async def test_tampering_below_and_at_the_anchor_shows(store: Database, what: str) -> None:
    await some_history(store)
    await remove(store)
    assert (await verified(store)).mismatch is None
    statement, code = TAMPERINGS[what]
    await store.write(lambda connection: connection.execute(statement()))
    mismatch = (await verified(store)).mismatch
    assert mismatch is not None
    assert mismatch.code == code


async def test_a_history_that_does_not_verify_is_not_removed(store: Database) -> None:
    await some_history(store)
    alter = audit.update().where(audit.c.seq == 4).values(actor="mallory")
    await store.write(lambda connection: connection.execute(alter))
    with pytest.raises(HistoryAltered):
        await remove(store)
    assert await seqs(store) == [1, 2, 3, 4, 5, 6]


async def test_a_part_below_the_anchor_is_said_to_be_gone(store: Database) -> None:
    await some_history(store)
    await remove(store)
    gone = await verified(store, from_seq=2, to_seq=4)
    assert (gone.mismatch, gone.rows, gone.first_seq) == (None, 0, None)
    assert gone.removal is not None
    part = await verified(store, from_seq=4, to_seq=6)
    assert (part.mismatch, part.rows, part.first_seq) == (None, 1, 6)
    later = await verified(store, from_seq=7)
    assert (later.mismatch, later.rows, later.first_seq) == (None, 1, 7)


async def test_a_removal_that_was_cut_short_is_finished(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "ENTRIES_PER_PAGE", 1)
    await some_history(store)
    for writes in range(1, 40):
        down = _Down(store, writes)
        try:
            await remove_old_rows(down, "prod", days=DAYS, now_ms=NOW_MS)  # type: ignore[arg-type]
            break
        except DatabaseUnavailable:
            found = await verified(store)
            assert found.mismatch is None
    else:
        pytest.fail("it never came to its end")
    assert await seqs(store) == [1, 3, 4, 6, 7]
    assert (await newest_removal(store)).is_swept


class _Down:
    """A store that goes away after so many writes."""

    def __init__(self, store: Database, writes: int) -> None:
        self._store = store
        self._left = writes
        self.read = store.read

    async def write(self, work: Any, **asked: Any) -> Any:
        if self._left == 0:
            raise DatabaseUnavailable("down")
        self._left -= 1
        return await self._store.write(work, **asked)


class _Meanwhile:
    """A store in which rows are removed behind the reader's back, before so many reads."""

    def __init__(self, store: Database, reads: int) -> None:
        self._store = store
        self._left = reads

    async def read(self, work: Any, **asked: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            await remove(self._store)
        return await self._store.read(work, **asked)


@pytest.mark.parametrize("reads", range(2, 9))
async def test_a_walk_that_rows_are_removed_under_begins_anew(
    store: Database, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "ENTRIES_PER_PAGE", 1)
    await some_history(store)
    await remove(store, now_ms=day(36))
    await append(store, change(day(81), state(2), state(3)))
    found = await verify(_Meanwhile(store, reads), "prod")  # type: ignore[arg-type]
    assert found is not None
    assert found.mismatch is None
    assert found.last_seq in (8, 9)  # with the second removal's own row, where it began anew


class _Noon:
    def expiry_ms(self) -> int | None:
        return NOW_MS

    async def sleep_ms(self, duration_ms: int) -> None:
        raise NotImplementedError


async def test_only_clusters_of_the_active_controller_are_looked_at(store: Database) -> None:
    await some_history(store)
    await Retention(store, clock=_Noon(), clusters=lambda: (), days=DAYS).look()
    assert len(await seqs(store)) == 6
    await Retention(store, clock=_Noon(), clusters=lambda: ("nowhere", "prod"), days=DAYS).look()
    assert len(await seqs(store)) == 5


def random_history(seed: int) -> list[AuditedChange]:
    """Topics of two partitions that change, are deleted and made again, over a hundred days."""
    draw = random.Random(seed)
    epochs: dict[str, list[int]] = {}
    changes: list[AuditedChange] = []
    made = 0
    for at_ms in sorted(draw.randrange(day(1), day(100)) for _ in range(80)):
        kind = draw.random()
        if kind < 0.15 or not epochs:
            made += 1
            topic_id = f"t{made}"
            epochs[topic_id] = [0, 0]
            changes.append(announced(at_ms, topic_id, f"topic-{made % 3}"))
            for number in (0, 1):
                changes.append(
                    change(
                        at_ms, None, state(0, topic_id=topic_id, topic=f"topic-{made % 3}", partition=number)
                    )
                )
            continue
        topic_id = draw.choice(sorted(epochs))
        name = f"topic-{int(topic_id[1:]) % 3}"
        if kind < 0.25:
            for number, epoch in enumerate(epochs.pop(topic_id)):
                gone = state(epoch, topic_id=topic_id, topic=name, partition=number)
                changes.append(change(at_ms, gone, None, cause="topic_deleted"))
            changes.append(topic_change(at_ms, 1, topic_id, None))
            continue
        number = draw.randrange(2)
        epoch = epochs[topic_id][number] = epochs[topic_id][number] + 1
        isr = tuple(draw.sample((1, 2, 3), draw.randrange(1, 4)))
        fields = {"topic_id": topic_id, "topic": name, "partition": number}
        changes.append(change(at_ms, state(epoch - 1, **fields), state(epoch, isr=isr, **fields)))
    return changes


async def placed_at(store: Database, at_ms: int) -> list[Placement]:
    page = await store.read(placements_at, cluster="prod", at_ms=at_ms, limit=1000)
    return list(page.items)


@pytest.mark.parametrize("seed", range(3))
async def test_each_time_since_the_anchor_is_told_as_it_was_before_the_removal(
    store: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "ENTRIES_PER_PAGE", 7)
    monkeypatch.setattr(retention, "ENTRIES_PER_REMOVAL", 40)
    draw = random.Random(seed)
    for one in random_history(seed):
        await append(store, one)
        if draw.random() < 0.2:
            await ask(store, one.at_ms, answered_ms=draw.choice((None, one.at_ms)))
    asked = [day(number) for number in range(1, 101, 3)]
    before = {at_ms: await placed_at(store, at_ms) for at_ms in asked}
    for now_ms in (day(60), day(90), day(100)):
        assert await remove(store, now_ms=now_ms) > 0
        found = await verified(store)
        assert found.mismatch is None
        since_ms = await store.read(audited_since_ms, cluster="prod")
        assert since_ms is not None
        assert since_ms <= now_ms - DAYS * DAY_MS
        for at_ms in asked:
            if at_ms >= since_ms:
                assert await placed_at(store, at_ms) == before[at_ms]
    recorded = await newest_removal(store)
    counted = len(await seqs(store))
    last = (await verified(store)).last_seq
    assert last is not None
    assert counted == last - recorded.removal.removed_rows_total
