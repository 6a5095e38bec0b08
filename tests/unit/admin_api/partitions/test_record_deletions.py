"""Records are deleted over REST: by the leader, up to an offset, a time or the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admin_api.http.permits import DeedPermits
from controller.shell.client_groups import DeletionRefused, GroupsUnavailable, Place
from springtide.contract.administration import (
    AdminRequest,
    AdminResponse,
    DeleteRecordsCall,
    RecordsBefore,
    RecordsToDelete,
)
from springtide.contract.epochs import BrokerEpoch
from tests.kit.admin_api.rest import SECRETS, TOKENS, Rest, ask, bearer, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PARTITION = "/clusters/prod/topics/orders/partitions/0"
DELETE = f"{PARTITION}:delete-records"
#: Offset 5 was written at 1,000 ms, 6 at 2,000 ms, and so on; 9 is the end.
LOG = (5, (1_000, 2_000, 3_000, 4_000))


def starts_at(rest: Rest) -> int:
    return rest.groups.logs["orders", 0][0]


@pytest.mark.parametrize(
    ("body", "first_kept"),
    [
        ({"before_offset": 7}, 7),
        ({"before_offset": 9}, 9),
        ({"before_offset": 3}, 5),
        ({"before_time": "1970-01-01T00:00:02.500Z"}, 7),
        ({"before_time": "2026-01-01T00:00:00Z"}, 9),
        ({"all": True}, 9),
    ],
)
async def test_records_before_a_place_are_deleted(
    zookeeper: MemoryZooKeeper, body: dict[str, Any], first_kept: int
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        rest.groups.logs["orders", 0] = LOG
        planned = await rest.post(f"{DELETE}?dry_run=true", body)
        assert (planned.status_code, starts_at(rest)) == (200, 5)
        assert planned.json() == {
            "topic": "orders",
            "partition": 0,
            "log_start_offset_before": 5,
            "log_start_offset": first_kept,
            "log_end_offset": 9,
            "deleted": first_kept - 5,
        }
        assert await rest.recorded(cause="delete_records") == []
        done = await rest.post(DELETE, body | {"reason": "a broken release"}, X_Actor="alice")
        assert (done.status_code, done.json(), starts_at(rest)) == (200, planned.json(), first_kept)
        (row,) = await rest.recorded(cause="delete_records")
        assert (row["topic"], row["partition"], row["reason"]) == ("orders", 0, "a broken release")
        assert row["actor"].startswith("unverified:alice@")
        told = f"offsets 5 to {first_kept} of orders-0" if first_kept > 5 else "there was nothing to delete"
        assert row["outcome"]["detail"] == told


async def test_what_is_not_deleted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        await rest.create_topic("state", configs={"cleanup.policy": "compact"})
        assert problem(await rest.post(DELETE, {"all": True})) == (503, "log_unavailable")
        rest.groups.logs["orders", 0] = LOG
        beyond = await rest.post(DELETE, {"before_offset": 10})
        assert (problem(beyond), pointers(beyond)) == ((422, "invalid_request"), ["/before_offset"])
        assert beyond.json()["errors"][0]["limit"] == 9
        for body in ({}, {"all": True, "before_offset": 7}, {"before_offset": -1}, {"before_offset": "7"}):
            assert problem(await rest.post(DELETE, body)) == (422, "invalid_request")
        compacted = await rest.post(DELETE.replace("orders", "state"), {"all": True})
        assert problem(compacted) == (409, "records_kept")
        assert compacted.json()["kafka_error"]["code"] == 44
        for path, code in (
            ("none/partitions/0", "topic_not_found"),
            ("orders/partitions/3", "partition_not_found"),
        ):
            missing = await rest.post(f"/clusters/prod/topics/{path}:delete-records", {"all": True})
            assert problem(missing) == (404, code)
        stale = await rest.post(DELETE, {"all": True}, If_Match='"nothing-1.ab"')
        assert problem(stale) == (412, "precondition_failed")

        async def refuse(_: Place, __: int) -> None:
            raise failure

        rest.groups.deleting = refuse
        failure: Exception = DeletionRefused("Broker: Policy violation")
        assert problem(await rest.post(DELETE, {"all": True})) == (409, "records_kept")
        failure = GroupsUnavailable("127.0.0.1:9001: it is silent")
        assert problem(await rest.post(DELETE, {"all": True})) == (503, "log_unavailable")
        assert starts_at(rest) == 5


async def test_a_replica_that_has_not_stored_it_yet_is_told_and_a_lost_answer_too(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        rest.groups.logs["orders", 0] = LOG
        rest.groups.unstored = True
        assert problem(await rest.post(DELETE, {"before_offset": 6})) == (504, "not_in_force")
        rest.groups.unstored, rest.groups.loses_answers = False, True
        assert problem(await rest.post(DELETE, {"before_offset": 7})) == (504, "outcome_unknown")
        unknown, stored = await rest.recorded(cause="delete_records")
        assert [row["outcome"]["outcome"] for row in (unknown, stored)] == ["unknown", "succeeded"]


async def test_the_leader_is_permitted_what_was_asked_for_and_nothing_else(
    zookeeper: MemoryZooKeeper,
) -> None:
    """Also where tokens are used, and Kafka's clients may change nothing."""
    async with controller(zookeeper, tokens=TOKENS) as rest:
        brokers = await rest.form()
        topic = {"name": "orders", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        await ask(rest, "POST", "/topics", "operator", json=topic)
        rest.groups.logs["orders", 0] = LOG

        async def leader_asks(before_offset: int) -> int:
            before = RecordsBefore(partition=0, before_offset=before_offset)
            call = DeleteRecordsCall(topics=(RecordsToDelete(topic="orders", partitions=(before,)),))
            request = AdminRequest(
                broker_id=1,
                broker_epoch=BrokerEpoch(brokers[0].broker_epoch),
                client_host="10.1.2.3",
                call=call,
            )
            answer = await rest.client.post(
                "/internal/clusters/prod/brokers/1:administer",
                content=msgspec.json.encode(request),
                headers={"Authorization": f"Bearer {SECRETS['broker']}"},
            )
            (outcome,) = msgspec.json.decode(answer.content, type=AdminResponse).outcomes
            return outcome.error_code

        told: list[int] = []

        async def deleting(_: Place, before_offset: int) -> None:
            told.extend([await leader_asks(before_offset), await leader_asks(before_offset + 1)])

        rest.groups.deleting = deleting
        refused = await ask(rest, "POST", DELETE, "viewer", json={"before_offset": 7})
        assert problem(refused) == (403, "forbidden")
        assert (refused.json()["facts"]["operation"], told) == ("delete", [])
        done = await ask(rest, "POST", DELETE, "operator", json={"before_offset": 7})
        assert (done.status_code, told) == (200, [0, 31]), done.text
        assert await leader_asks(7) == 31, "the request is over"
        await rest.outbox.flush()
        listed = await rest.client.get("/audit", params={"cause": "delete_records"}, headers=bearer("viewer"))
        assert [row["actor"] for row in listed.json()["items"]] == ["the-operator"], "one row for one deed"


def test_two_requests_for_one_deed_do_not_end_each_others_permit() -> None:
    permits = DeedPermits()
    with permits.opened("deed"):
        with permits.opened("deed"):
            assert "deed" in permits
        assert "deed" in permits
        assert "another" not in permits
    assert "deed" not in permits
