from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.events import ConfigureTopic
from controller.core.image import ClusterImage
from controller.core.options import ControllerOptions
from controller.core.resilience import (
    Condition,
    Tally,
    condition_of,
    lose,
    losses_by_group,
    takes_acks_all,
    tally,
    worst_loss,
)
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.contract.session import BrokerStatus
from tests.kit.controller.core_cluster import Cluster, changed, log_end, report

BROKERS = (1, 2, 3, 4, 5)


def told(cluster: Cluster, *lost: int) -> list[tuple[str, Condition, bool, int, tuple[int, ...]]]:
    return [
        (loss.after.topic, loss.condition, loss.stops_acks_all, loss.after.leader, loss.after.isr)
        for loss in lose(cluster.image, lost)
    ]


def test_a_loss_is_told_the_worst_first() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1, 2, 3), number=0)
    cluster.create((2, 1), number=1)
    cluster.create((1,), number=2)
    cluster.create((4, 5), number=3)
    assert told(cluster, 1) == [
        ("orders-2", Condition.LEADERLESS, True, -1, ()),
        ("orders-1", Condition.UNDER_MIN_ISR, True, 2, (2,)),
        ("orders-0", Condition.UNDER_REPLICATED, False, 2, (2, 3)),
    ]
    assert tally(lose(cluster.image, (1,))) == Tally(
        leaderless=1, recovering=0, stops_acks_all=2, under_min_isr=1, under_replicated=1
    )
    assert told(cluster, 4, 5) == [("orders-3", Condition.LEADERLESS, True, -1, ())]
    assert told(cluster) == told(cluster, 99) == []


def test_an_unclean_election_that_is_allowed_is_told_as_a_loss_of_records() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1, 2), configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    cluster.propose(1)
    assert told(cluster, 1) == [("orders-0", Condition.RECOVERING, False, 2, (2,))]
    assert told(cluster, 1, 2) == [("orders-0", Condition.LEADERLESS, True, -1, ())]


def test_who_is_down_already_has_nothing_left_to_lose() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1, 2, 3))
    cluster.kill(1)
    assert told(cluster, 1) == []
    assert told(cluster, 2) == [("orders-0", Condition.UNDER_MIN_ISR, True, 3, (3,))]
    cluster.kill(2)
    assert told(cluster, 2) == []
    assert told(cluster, 3) == [("orders-0", Condition.LEADERLESS, False, -1, ())]


def test_a_broker_that_shuts_down_does_not_remain_to_lead() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1, 2, 3))
    cluster.propose(1, 2)
    cluster.heartbeat(2, wants_shutdown=True)
    assert cluster.broker(2).status is BrokerStatus.SHUTTING_DOWN
    assert cluster.partition().isr == (1, 2)  # it stays until 3 has caught up
    assert told(cluster, 1) == [("orders-0", Condition.LEADERLESS, True, -1, (2,))]
    by_broker = losses_by_group(cluster.image, {b: b for b in BROKERS})
    assert by_broker[1] == Tally(leaderless=1, stops_acks_all=1)


def test_a_topic_that_is_being_deleted_loses_nothing() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1,))
    cluster.create((1, 2), number=1)
    cluster.delete()
    assert [topic for topic, *_ in told(cluster, 1)] == ["orders-1"]
    assert losses_by_group(cluster.image, {1: "a"})["a"].leaderless == 0


def test_the_worst_loss_is_the_one_that_takes_most_offline() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((1, 2, 3), (1, 2, 4), (1, 4, 5), number=0)
    cluster.create((3,), number=1)
    assert worst_loss(cluster.image, {}) is None
    by_broker = {b: f"broker:{b}" for b in BROKERS}
    worst = worst_loss(cluster.image, by_broker)
    assert worst is not None
    assert (worst.name, worst.tally.leaderless, worst.tally.under_replicated) == ("broker:3", 1, 1)
    by_rack = {1: "rack:a", 2: "rack:a", 3: "rack:b", 4: "rack:c", 5: "rack:c"}
    assert losses_by_group(cluster.image, by_rack)["rack:a"] == Tally(
        stops_acks_all=2, under_min_isr=2, under_replicated=1
    )


def test_of_two_that_are_equally_bad_the_first_by_name_is_the_worst() -> None:
    cluster = Cluster(brokers=BROKERS)
    cluster.create((2,), (1,))
    worst = worst_loss(cluster.image, {b: f"broker:{b}" for b in BROKERS})
    assert worst is not None and worst.name == "broker:1"


def test_a_partition_that_waits_for_its_leader_takes_no_acks_all() -> None:
    """So it is after a recovery of metadata: one is in sync and may lead."""
    cluster = Cluster()
    cluster.create((1,))
    assert takes_acks_all(cluster.partition())
    assert not takes_acks_all(changed(cluster.partition(), leader=NO_LEADER))


def test_counting_finds_what_a_look_at_each_partition_finds() -> None:
    """One broker is dead and has a seat left; one partition was below its new minimum before."""
    cluster = Cluster(msgspec.structs.replace(ControllerOptions(), vacated_per_step_max=1), brokers=BROKERS)
    cluster.create((1, 2, 3), (1, 2, 3))
    cluster.create((1, 2, 4), number=1)
    cluster.propose(1, 2, base=cluster.partition(number=1))
    cluster.step(
        ConfigureTopic(
            wall_ms=0,
            actor="ann",
            topic_id=cluster.partition(number=1).topic_id,
            configs={"min.insync.replicas": "3"},
        )
    )
    cluster.kill(3)
    assert [len(cluster.partition(number).isr) for number in (0, 1)] == [2, 3]
    assert cluster.partition(number=1).elr == ()
    assert losses_by_group(cluster.image, {b: b for b in BROKERS}) == {
        b: tally(lose(cluster.image, (b,))) for b in BROKERS
    }


# --- against the machine itself -------------------------------------------------------------------------


def conditions(image: ClusterImage) -> dict[PartitionKey, tuple[Condition, bool]]:
    return {
        key: (condition_of(state), takes_acks_all(state))
        for key, state in image.partitions.items()
        if key[0] in image.topics and not image.topics[key[0]].deleting
    }


def tell_ends(cluster: Cluster) -> None:
    """Live replicas of partitions without a leader tell of their logs, which are all empty."""
    for topic_id, partition in list(cluster.image.leaderless):
        state = cluster.image.partitions[topic_id, partition]
        told = msgspec.structs.replace(
            log_end(0), topic_id=topic_id, partition=partition, leader_epoch=state.leader_epoch
        )
        for broker_id in state.elr:
            if cluster.image.is_eligible(broker_id):
                report(cluster, broker_id, log_ends=(told,))


def lived_in_cluster(rng: random.Random) -> Cluster:
    """Topics of all kinds, brokers that died, came back, left; ISRs that shrank and grew."""
    cluster = Cluster(brokers=BROKERS)
    for number in range(rng.randint(1, 6)):
        factor = rng.randint(1, 4)
        configs = {
            "min.insync.replicas": str(rng.randint(1, factor)),
            "unclean.leader.election.enable": rng.choice(("true", "false", "false")),
        }
        placed = [tuple(rng.sample(BROKERS, factor)) for _ in range(rng.randint(1, 4))]
        cluster.create(*placed, number=number, configs=configs)
    for step in range(rng.randint(0, 25)):
        broker_id = rng.choice(BROKERS)
        is_fenced = cluster.broker(broker_id).status is BrokerStatus.FENCED
        match rng.choice(("kill", "restart", "isr", "isr", "isr", "leave", "delete", "move")):
            case "kill" if not is_fenced:
                cluster.kill(broker_id)
            case "restart" if is_fenced:
                cluster.restart(broker_id, f"i{step}")
            case "isr":
                propose_something(cluster, rng)
            case "leave" if not is_fenced:
                cluster.heartbeat(broker_id, wants_shutdown=True)
            case "delete" if len(cluster.image.topic_ids) > 1 and rng.random() < 0.3:
                cluster.delete(int(min(cluster.image.topic_ids).rpartition("-")[2]))
            case "move":
                move_something(cluster, rng)
            case _:
                pass
        tell_ends(cluster)
    return cluster


def some_partition(cluster: Cluster, rng: random.Random) -> PartitionState:
    living = sorted(conditions(cluster.image))
    return cluster.image.partitions[rng.choice(living)]


def propose_something(cluster: Cluster, rng: random.Random) -> None:
    state = some_partition(cluster, rng)
    if state.leader == -1:
        return
    members = [
        b
        for b in state.replicas
        if b == state.leader or (cluster.image.is_eligible(b) and rng.random() < 0.6)
    ]
    cluster.propose(*members, base=state)


def move_something(cluster: Cluster, rng: random.Random) -> None:
    state = some_partition(cluster, rng)
    number = int(state.topic.rpartition("-")[2])
    target = rng.sample(BROKERS, len(state.target_replicas))
    cluster.reassign(*target, partition=state.partition, number=number)


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_what_is_told_of_a_loss_is_what_happens_when_the_brokers_die(seed: int) -> None:
    """The model is the machine: brokers die one after the other, in any order."""
    rng = random.Random(seed)
    cluster = lived_in_cluster(rng)
    lost = rng.sample(BROKERS, rng.randint(1, 4))
    expected = conditions(cluster.image)
    before = dict(expected)
    losses = lose(cluster.image, lost)
    for loss in losses:
        key = (loss.after.topic_id, loss.after.partition)
        assert loss.before is before[key][0]
        expected[key] = (loss.condition, takes_acks_all(loss.after))
        assert loss.stops_acks_all is (before[key][1] and not takes_acks_all(loss.after))
    for broker_id in lost:
        if cluster.broker(broker_id).status is not BrokerStatus.FENCED:
            cluster.kill(broker_id)
            tell_ends(cluster)
    assert conditions(cluster.image) == expected
    assert [-loss.condition for loss in losses] == sorted(-loss.condition for loss in losses)


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_all_losses_of_a_kind_at_once_are_each_loss_by_itself(seed: int) -> None:
    rng = random.Random(seed)
    image = lived_in_cluster(rng).image
    groupings = [
        {b: b for b in BROKERS},
        {b: b % 2 for b in BROKERS},
        {b: 0 for b in BROKERS if b != 3},
        {b: rng.randrange(3) for b in BROKERS},
    ]
    for group_of in groupings:
        by_group = losses_by_group(image.rows(), group_of)
        assert sorted(by_group) == sorted(set(group_of.values()))
        for group, found in by_group.items():
            assert found == tally(lose(image, [b for b in BROKERS if group_of.get(b) == group]))


@pytest.mark.parametrize("word", list(Condition))
def test_each_condition_is_met_by_the_random_clusters(word: Condition) -> None:
    """The properties above would say nothing about a condition that never comes up."""
    seen = set()
    for seed in range(60):
        rng = random.Random(seed)
        image = lived_in_cluster(rng).image
        seen |= {loss.condition for loss in lose(image, rng.sample(BROKERS, 3))}
        seen |= {condition for condition, _ in conditions(image).values()}
    assert word in seen
