"""A stock member of a `consumer` group that lacks a right: it and the coordinator say at once why."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Consumer, KafkaError

from localcluster.access import ALICE, OPERATOR, OWN, VIEWER
from localcluster.cluster import LocalCluster
from localcluster.rest import Json

pytestmark = [pytest.mark.timeout(240)]
OTHERS, PAY = "payments", f"{OWN}-pay"
"""A topic of others; a topic and a group of alice's."""
AT_ONCE_SECONDS = 20.0
"""To connect, log in, find the coordinator and be refused; sessions and rebalances take longer."""
POLL_SECONDS = 0.2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, coordinators=1, is_secure=True, has_users=True) as running:
        running.form()
        for topic in (OTHERS, PAY):
            running.create_topic(topic, partitions=1, replication_factor=1)
        yield running


def first_of(cluster: LocalCluster, user: str, group: str, topic: str) -> KafkaError | list[str]:
    """Return the first error of a heartbeat that a member is told, or the topics that it is assigned."""
    given: list[str] = []
    settings = {
        **cluster.clients[user].settings,
        "group.id": group,
        "group.protocol": "consumer",
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=lambda _, found: given.extend(one.topic for one in found))
    try:
        deadline = monotonic() + AT_ONCE_SECONDS
        while monotonic() < deadline:
            message = consumer.poll(POLL_SECONDS)
            error = None if message is None else message.error()
            if error is not None and "Heartbeat" in error.str():
                return error
            if given:
                return sorted(given)
    finally:
        consumer.close()
    pytest.fail("it was told nothing")


def told(cluster: LocalCluster) -> str:
    """Return what the coordinator has said."""
    (node,) = cluster.coordinators.values()
    return node.process.log_path.read_text(encoding="utf-8")


def check_told(cluster: LocalCluster, user: str, error: str, why: str) -> None:
    """Check that the coordinator has said whom it refused, and why."""
    refused = f"request_refused request=ConsumerGroupHeartbeat error={error}"
    lines = [line for line in told(cluster).splitlines() if refused in line]
    assert any(why in line and f"principal=User:{user}" in line for line in lines), lines


def test_without_read_on_the_group(cluster: LocalCluster) -> None:
    found = first_of(cluster, VIEWER, PAY, PAY)  # It may describe all groups, so it finds its coordinator.
    assert isinstance(found, KafkaError), found
    assert (found.code(), "Group authorization failed" in found.str()) == (KafkaError._FATAL, True)
    check_told(cluster, VIEWER, "GROUP_AUTHORIZATION_FAILED", f"no right to READ the group '{PAY}'")


def test_without_describe_on_a_topic(cluster: LocalCluster) -> None:
    found = first_of(cluster, ALICE, PAY, OTHERS)
    assert isinstance(found, KafkaError), found
    why = f"no right to DESCRIBE 1 of the topics: {OTHERS}"
    assert (found.code(), why in found.str()) == (KafkaError.TOPIC_AUTHORIZATION_FAILED, True)
    check_told(cluster, ALICE, "TOPIC_AUTHORIZATION_FAILED", why)


def test_what_members_did_to_a_group_is_explained_to_the_operator(cluster: LocalCluster) -> None:
    group = f"{OWN}-explained"
    assert first_of(cluster, ALICE, group, PAY) == [PAY]

    def explained() -> list[Json] | None:
        found: list[Json] = cluster.api.get(f"/clusters/{cluster.name}/rebalances/{group}")["items"]
        return found if len(found) > 1 else None

    left, joined = cluster.wait_until("its member's leave is told", explained)
    (cause,), (move,) = joined["causes"], joined["moves"]
    member = cause["member_id"]
    assert (cause["kind"], left["causes"][0]["kind"], left["causes"][0]["member_id"]) == (
        "joined",
        "left",
        member,
    )
    assert cause["text"] == f"member {member} joined from host /127.0.0.1"
    assert (move["from_member_id"], move["to_member_id"], move["count"]) == (None, member, 1)


def test_a_pattern_stands_for_the_topics_that_its_member_may_describe(cluster: LocalCluster) -> None:
    pattern = f"^({OTHERS}|{PAY})$"
    assert first_of(cluster, ALICE, f"{OWN}-alice", pattern) == [PAY]
    assert first_of(cluster, OPERATOR, f"{OWN}-operator", pattern) == [PAY, OTHERS]
