from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
import sqlalchemy as sa

from controller.audit import history
from controller.audit.change import AuditedChange, Entity
from controller.audit.history import Intent
from controller.audit.placements import Placement, Position, audited_since_ms, placements_at
from controller.audit.provenance import Origin, explain_replicas
from controller.database.sql import create_sql_engine
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.partition_state import PartitionState
from tests.kit.controller.audited import announced, change, state, topic_change


@pytest.fixture
def connection(database_url: str) -> Iterator[sa.Connection]:
    engine = create_sql_engine(database_url)
    with engine.execution_options(springtide_write=True).begin() as connection:
        yield connection
    engine.dispose()


def append(connection: sa.Connection, *changes: AuditedChange) -> None:
    history.append_changes(connection, changes, recorded_at_ms=max(c.at_ms for c in changes) + 50)


def all_at(
    connection: sa.Connection, at_ms: int, *, limit: int = 100, topic: str | None = None
) -> list[Placement]:
    found: list[Placement] = []
    after: Position | None = None
    while True:
        page = placements_at(connection, cluster="prod", at_ms=at_ms, topic=topic, after=after, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        if page.next is None:
            return found
        after = page.next


class Then(NamedTuple):
    """What a model says of a moment."""

    at_ms: int
    placed: dict[tuple[str, int, str], list[int]]


def _random_history(seed: int) -> tuple[list[AuditedChange], list[Then]]:
    """Topics of three names come, change and go, and what stands there after each millisecond."""
    rng = random.Random(seed)
    living: dict[str, dict[int, PartitionState]] = {}
    names: dict[str, str] = {}
    changes: list[AuditedChange] = []
    thens: list[Then] = []
    for at_ms in range(1_000, 1_040):
        free = [name for name in ("a", "a.b", "B") if name not in names.values()]
        taken = sorted(living)
        match rng.choice(("create", "create", "move", "move", "delete")):
            case "create" if free:
                topic_id = f"id{at_ms}"
                names[topic_id] = rng.choice(free)
                living[topic_id] = {
                    number: state(0, topic_id=topic_id, topic=names[topic_id], partition=number)
                    for number in range(rng.randint(1, 12))
                }
                changes += [change(at_ms, None, created) for created in living[topic_id].values()]
                changes.append(announced(at_ms, topic_id, names[topic_id]))
            case "move" if taken:
                of_topic = living[rng.choice(taken)]
                before = of_topic[rng.choice(sorted(of_topic))]
                replicas = tuple(rng.sample(range(1, 9), 3))
                after = msgspec.structs.replace(
                    before, replicas=replicas, partition_epoch=before.partition_epoch + 1
                )
                of_topic[before.partition] = after
                changes.append(change(at_ms, before, after))
            case "delete" if taken:
                topic_id = rng.choice(taken)
                marked = {"topic_id": topic_id, "topic": names.pop(topic_id), "deleting": True}
                changes.append(topic_change(at_ms, 1, topic_id, marked))
                gone = living.pop(topic_id)
                if rng.random() < 0.5:
                    changes += [change(at_ms, last, None) for last in gone.values()]
                    changes.append(topic_change(at_ms, 2, topic_id, None))
            case _:
                pass
        placed = {
            (one.topic, one.partition, one.topic_id): list(one.replicas)
            for of_topic in living.values()
            for one in of_topic.values()
        }
        thens.append(Then(at_ms, placed))
    return changes, thens


@pytest.mark.parametrize("seed", range(2))
def test_the_placement_of_every_moment_is_what_stood_there_then(connection: sa.Connection, seed: int) -> None:
    changes, thens = _random_history(seed)
    append(connection, *changes)
    assert any(len(then.placed) > 12 for then in thens)
    for number, then in enumerate(thens):
        found = all_at(connection, then.at_ms, limit=(2, 5, 100)[number % 3])
        keys = [(one.topic, one.partition, one.topic_id) for one in found]
        assert len(keys) == len(set(keys))
        assert dict(zip(keys, (one.snapshot["replicas"] for one in found), strict=True)) == then.placed
        assert all(one.is_certain for one in found)
        only = {one.partition for one in all_at(connection, then.at_ms, topic="a.b", limit=5)}
        assert only == {number for topic, number, _ in then.placed if topic == "a.b"}


def test_what_may_have_changed_in_a_gap_is_not_called_certain(connection: sa.Connection) -> None:
    first, last = state(0), state(5, replicas=(4, 2, 3), leader=2, isr=(2, 3))
    append(connection, change(1_000, None, first), announced(1_000))
    (before,) = all_at(connection, 2_000)
    assert before.is_certain
    truth = change(3_000, None, last, cause="broker_died")
    history.backfill_rows(connection, [truth], recorded_at_ms=9_000)
    (then,) = all_at(connection, 2_000)
    assert (then.snapshot["replicas"], then.is_certain) == ([1, 2, 3], False)
    (now,) = all_at(connection, 3_000)
    assert (now.snapshot["replicas"], now.is_certain, now.changed_at_ms) == ([4, 2, 3], True, 3_000)


def test_the_audit_begins_with_its_first_row_or_with_its_first_back_fill(connection: sa.Connection) -> None:
    assert audited_since_ms(connection, "prod") is None
    append(connection, change(1_000, None, state(0)))
    assert audited_since_ms(connection, "prod") == 1_000
    seen_late = change(1_000, None, state(7), cluster="test", cause="isr_shrunk")
    history.backfill_rows(connection, [seen_late], recorded_at_ms=9_000)
    assert audited_since_ms(connection, "test") == 9_000


def test_a_forged_position_is_only_a_place_to_go_on(connection: sa.Connection) -> None:
    append(connection, change(1_000, None, state(0)), announced(1_000))
    page = placements_at(
        connection, cluster="prod", at_ms=2_000, after=Position("\x00\ud800", 2**62, "\x00"), limit=5
    )
    assert [one.topic for one in page.items] in ([], ["orders"])  # as the database sorts


def told(origin: Origin | None) -> tuple[str, int, bool, list[str]] | None:
    if origin is None:
        return None
    assert origin.row.version is not None
    causes = [f"{row.kind} {row.entity} {row.cause}" for row in origin.caused_by]
    return (origin.row.cause, origin.row.version, origin.is_exact, causes)


def test_each_replica_tells_who_placed_it_why_it_is_in_sync_and_why_it_leads(
    connection: sa.Connection,
) -> None:
    intent = Intent(
        cluster="prod",
        action="create_topic",
        entity=Entity.TOPIC,
        entity_id="orders",
        actor="alice",
        reason="launch",
        request_id="r1",
        at_ms=990,
        body={},
    )
    asked = history.append_intent(connection, intent, recorded_at_ms=991)
    states = [
        state(0),
        state(1, isr=(1, 2)),
        state(2, isr=(2,), leader=2, leader_epoch=1),
        state(3, isr=(1, 2), leader=2, leader_epoch=1),
        state(4, replicas=(4, 1, 2), isr=(4, 1, 2), leader=2, leader_epoch=1),
    ]
    died = AuditedChange(
        cluster="prod",
        entity=Entity.BROKER,
        entity_id="1",
        version=3,
        cause="broker_died",
        actor="controller",
        reason="refuses connections",
        at_ms=2_000,
        before={},
        after={},
        controller_epoch=ControllerEpoch(1),
    )
    append(
        connection,
        change(1_000, None, states[0], actor="alice", reason="launch", request_id="r1"),
        change(1_500, states[0], states[1]),
        died,
        change(2_000, states[1], states[2], cause="broker_died"),
        change(2_500, states[2], states[3], cause="isr_expanded"),
        change(3_000, states[3], states[4], cause="reassigned", operation_id="op_1"),
    )
    four, one, two = explain_replicas(connection, cluster="prod", state=states[4])
    created = ("topic_created", 0, True, ["request topic create_topic"])
    assert [told(four.placed), told(one.placed), told(two.placed)] == [
        ("reassigned", 4, True, []),
        created,
        created,
    ]
    assert told(four.in_sync) == ("reassigned", 4, True, [])
    assert told(one.in_sync) == ("isr_expanded", 3, True, [])
    assert told(two.in_sync) == created
    assert (told(four.leads), told(one.leads)) == (None, None)
    assert told(two.leads) == ("broker_died", 2, True, ["change broker broker_died"])
    assert two.placed is not None
    (request,) = two.placed.caused_by
    assert (request.id, request.actor, request.reason) == (asked, "alice", "launch")


def test_what_came_about_in_a_gap_has_no_exact_origin_and_the_unwritten_has_none(
    connection: sa.Connection,
) -> None:
    first, last = state(0), state(5, replicas=(4, 2, 3), isr=(2, 3), leader=2, leader_epoch=1)
    append(connection, change(1_000, None, first))
    not_yet = explain_replicas(connection, cluster="prod", state=last)
    assert [told(one.placed) is None for one in not_yet] == [True, False, False]
    assert told(not_yet[1].leads) is None
    history.backfill_rows(connection, [change(3_000, None, last, cause="isr_shrunk")], recorded_at_ms=9_000)
    four, two, three = explain_replicas(connection, cluster="prod", state=last)
    assert told(four.placed) == ("isr_shrunk", 5, False, [])
    assert told(two.leads) == ("isr_shrunk", 5, False, [])
    assert told(three.placed) == ("topic_created", 0, True, [])


def test_a_long_history_is_read_to_where_the_answer_is(connection: sa.Connection) -> None:
    states = [state(0)]
    states += [state(epoch, isr=(1, 2) if epoch % 2 else (1, 2, 3)) for epoch in range(1, 451)]
    pairs = zip([None, *states], states, strict=False)
    append(connection, *(change(1_000 + after.partition_epoch, before, after) for before, after in pairs))
    one, _, three = explain_replicas(connection, cluster="prod", state=states[-1])
    assert told(one.placed) == ("topic_created", 0, True, [])
    assert told(three.in_sync) == ("isr_shrunk", 450, True, [])
