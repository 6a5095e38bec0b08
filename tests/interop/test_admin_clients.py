"""Stock administration clients against real processes: what they ask for is carried out by the controller, is
in its audit under their name, and what REST shows of it is the same."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import kafka.errors
import pytest
from confluent_kafka import ElectionType, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicDescription,
)
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import KafkaAdminClient

from localcluster.cluster import LocalCluster

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
SECONDS_MAX = 30.0


@pytest.fixture
def librdkafka(running_cluster: LocalCluster) -> Iterator[AdminClient]:
    settings: dict[str, Any] = {
        "bootstrap.servers": running_cluster.bootstrap_servers,
        "client.id": "ops-tool",
    }
    with AdminClient(settings) as client:
        yield client


@contextmanager
def opened_admin(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, client_id="python-tool", request_timeout_ms=20_000
    )
    try:
        yield client
    finally:
        client.close()
        # It forgets to close sockets that were refused. Here their end is not held against us.
        del client
        gc.collect()


@pytest.fixture
def python_admin(running_cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    with opened_admin(running_cluster) as client:
        yield client


def elect(cluster: LocalCluster, kind: int, topic: str) -> None:
    """Of partition 0. kafka-python asks any broker that it knows where the controller is, be it one that has
    just gone, or of which the one with the addresses has not heard yet, gives up when that refuses, and keeps
    to a controller that it was told of once. So each try has a client of its own."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            with opened_admin(cluster) as admin:
                admin.elect_leaders(kind, {topic: [0]})
            return
        except (
            kafka.errors.KafkaConnectionError,
            kafka.errors.NodeNotReadyError,
            kafka.errors.UnknownBrokerIdError,
        ):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def fresh(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def error_of(futures: dict[Any, Any]) -> str:
    """The name of the error that the only future failed with."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as caught:
        future.result(SECONDS_MAX)
    name: str = caught.value.args[0].name()
    return name


def create(cluster: LocalCluster, name: str, assignments: list[list[int]], **configs: str) -> None:
    body = {"name": name, "assignments": assignments, "configs": configs}
    cluster.rest.post("/clusters/prod/topics", json=body).raise_for_status()
    cluster.wait_until_in_sync(name)


def shown(cluster: LocalCluster, topic: str, number: int) -> dict[str, Any]:
    """A partition, over REST."""
    response = cluster.rest.get(f"/clusters/prod/topics/{topic}/partitions/{number}")
    response.raise_for_status()
    view: dict[str, Any] = response.json()
    return view


def audited(cluster: LocalCluster, *, entity_id: str | None = None, **wanted: str) -> dict[str, Any]:
    """The newest row of the audit that has these values, once its outcome is there if it is a request's."""

    def found() -> dict[str, Any] | None:
        rows = [row for row in cluster.audit(**wanted) if entity_id in (None, row["entity_id"])]
        newest = max(rows, key=lambda row: row["id"], default=None)
        is_whole = newest is not None and (newest["kind"] == "change" or newest["outcome"] is not None)
        return newest if is_whole else None

    return cluster.wait_until(f"an audit row with {wanted}", found)


def test_librdkafka_creates_grows_describes_and_deletes_a_topic(
    running_cluster: LocalCluster, librdkafka: AdminClient
) -> None:
    name = fresh("made")
    wanted = NewTopic(name, num_partitions=2, replication_factor=3, config={"retention.ms": "3600000"})
    librdkafka.create_topics([wanted], validate_only=True)[name].result(SECONDS_MAX)
    assert running_cluster.rest.get(f"/clusters/prod/topics/{name}").status_code == 404
    librdkafka.create_topics([wanted])[name].result(SECONDS_MAX)
    view = running_cluster.rest.get(f"/clusters/prod/topics/{name}").json()
    assert (view["partitions"], view["replication_factor"]) == (2, 3)
    assert view["configs"] == {"retention.ms": "3600000"}
    asked = audited(running_cluster, cause="create_topic", topic=name)
    assert asked["actor"].startswith("unverified:ops-tool@127.0.0.1/kafka:")
    assert asked["outcome"]["outcome"] == "succeeded"
    assert audited(running_cluster, cause="topic_created", topic=name)["actor"] == asked["actor"]
    assert error_of(librdkafka.create_topics([wanted])) == "TOPIC_ALREADY_EXISTS"
    too_many = NewTopic(fresh("large"), num_partitions=1, replication_factor=9)
    assert error_of(librdkafka.create_topics([too_many])) == "INVALID_REPLICATION_FACTOR"
    wrong = NewTopic(fresh("wrong"), num_partitions=1, replication_factor=1, config={"retention.hours": "1"})
    assert error_of(librdkafka.create_topics([wrong])) == "INVALID_CONFIG"
    high = NewTopic(
        fresh("high"), num_partitions=1, replication_factor=2, config={"min.insync.replicas": "3"}
    )
    assert error_of(librdkafka.create_topics([high])) == "INVALID_CONFIG"
    assert error_of(librdkafka.create_topics([high], validate_only=True)) == "INVALID_CONFIG"
    by_default = NewTopic(fresh("default"), num_partitions=-1, replication_factor=-1)
    librdkafka.create_topics([by_default])[by_default.topic].result(SECONDS_MAX)

    librdkafka.create_partitions([NewPartitions(name, 5)])[name].result(SECONDS_MAX)
    assert running_cluster.rest.get(f"/clusters/prod/topics/{name}").json()["partitions"] == 5
    assert error_of(librdkafka.create_partitions([NewPartitions(name, 3)])) == "INVALID_PARTITIONS"
    unknown = librdkafka.create_partitions([NewPartitions(fresh("nobody"), 3)])
    assert error_of(unknown) == "UNKNOWN_TOPIC_OR_PART"

    librdkafka.delete_topics([name])[name].result(SECONDS_MAX)
    assert running_cluster.rest.get(f"/clusters/prod/topics/{name}").status_code == 404
    assert error_of(librdkafka.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"


def test_librdkafka_changes_and_describes_settings_of_topics_brokers_and_the_cluster(
    running_cluster: LocalCluster, librdkafka: AdminClient, make_topic: Callable[..., str]
) -> None:
    name = make_topic("tuned")
    topic = ConfigResource(
        ConfigResource.Type.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    librdkafka.incremental_alter_configs([topic])[topic].result(SECONDS_MAX)
    assert shown(running_cluster, name, 0)["min_insync_replicas"] == 1
    described = librdkafka.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)])
    (configs,) = [future.result(SECONDS_MAX) for future in described.values()]
    rest = running_cluster.rest.get(f"/clusters/prod/topics/{name}/configs").json()["items"]
    assert {item["name"]: item["value"] for item in rest}.items() <= {
        entry.name: entry.value for entry in configs.values()
    }.items()
    retention = configs["retention.ms"]
    assert (retention.value, retention.source, retention.is_default) == ("1000", 1, False)
    assert retention.synonyms["retention.ms"].value == "1000"
    assert configs["remote.storage.enable"].is_read_only
    undo = ConfigResource(
        ConfigResource.Type.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("min.insync.replicas", None, incremental_operation=AlterConfigOpType.DELETE)
        ],
    )
    librdkafka.incremental_alter_configs([undo])[undo].result(SECONDS_MAX)
    assert shown(running_cluster, name, 0)["min_insync_replicas"] == 2
    for setting, value, operation in (
        ("retention.hours", "1", AlterConfigOpType.SET),
        ("cleanup.policy", "keep", AlterConfigOpType.SET),
        ("retention.ms", "1", AlterConfigOpType.APPEND),
        ("min.insync.replicas", "4", AlterConfigOpType.SET),
    ):
        bad = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            incremental_configs=[ConfigEntry(setting, value, incremental_operation=operation)],
        )
        assert error_of(librdkafka.incremental_alter_configs([bad])) == "INVALID_CONFIG"
    rate = ConfigResource(
        ConfigResource.Type.BROKER,
        "2",
        incremental_configs=[
            ConfigEntry(
                "follower.replication.throttled.rate",
                "50000000",
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    librdkafka.incremental_alter_configs([rate])[rate].result(SECONDS_MAX)
    described = librdkafka.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "2")])
    (configs,) = [future.result(SECONDS_MAX) for future in described.values()]
    throttle = configs["follower.replication.throttled.rate"]
    assert (throttle.value, throttle.source) == ("50000000", 2)
    assert configs["num.partitions"].source == 5
    asked = audited(running_cluster, cause="alter_configs", entity="broker", entity_id="2")
    assert asked["actor"].startswith("unverified:ops-tool@")


def test_what_a_stock_client_sets_is_undone_over_rest_and_a_guarded_topic_is_not_deleted(
    running_cluster: LocalCluster, librdkafka: AdminClient, python_admin: KafkaAdminClient
) -> None:
    name = fresh("guarded")
    create(running_cluster, name, [[1, 2, 3]], **{"retention.ms": "604800000"})
    guard = ConfigEntry("deletion.protected", "true", incremental_operation=AlterConfigOpType.SET)
    short = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    for entry in (guard, short):
        resource = ConfigResource("topic", name, incremental_configs=[entry])
        for future in librdkafka.incremental_alter_configs([resource]).values():
            future.result(SECONDS_MAX)
    history = f"/clusters/prod/config-changes?topic={name}"
    deadline = time.monotonic() + SECONDS_MAX
    while len(items := running_cluster.rest.get(history).json()["items"]) < 2:
        assert time.monotonic() < deadline, "the audit does not have the changes"
        time.sleep(0.1)
    assert [item["changes"] for item in items] == [
        [{"name": "retention.ms", "before": "604800000", "after": "3600000"}],
        [{"name": "deletion.protected", "before": None, "after": "true"}],
    ]
    assert all(item["actor"].startswith("unverified:ops-tool@") for item in items)

    assert (
        error_of(librdkafka.delete_topics([name], request_timeout=SECONDS_MAX)) == "TOPIC_DELETION_DISABLED"
    )
    with pytest.raises(kafka.errors.TopicDeletionDisabledError):
        python_admin.delete_topics([name])
    for item in items:
        undone = running_cluster.rest.post(f"/clusters/prod/config-changes/{item['id']}:undo", json={})
        assert undone.status_code == 200, undone.text
    configs = running_cluster.rest.get(f"/clusters/prod/topics/{name}").json()["configs"]
    assert configs == {"retention.ms": "604800000"}
    for future in librdkafka.delete_topics([name], request_timeout=SECONDS_MAX).values():
        future.result(SECONDS_MAX)


def test_librdkafka_describes_cluster_and_topics_with_rights_and_replaces_settings(
    running_cluster: LocalCluster, librdkafka: AdminClient, make_topic: Callable[..., str]
) -> None:
    name = make_topic("described")
    described = librdkafka.describe_cluster(include_authorized_operations=True).result(SECONDS_MAX)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert {one.name for one in described.authorized_operations} == {
        "CREATE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    }

    def topic_described() -> TopicDescription | None:
        named = librdkafka.describe_topics(TopicCollection([name]), include_authorized_operations=True)
        try:
            found: TopicDescription = named[name].result(SECONDS_MAX)
        except KafkaException as error:
            assert error.args[0].name() == "UNKNOWN_TOPIC_OR_PART"
            return None
        return found

    topic = running_cluster.wait_until("the broker that is asked knows the topic", topic_described)
    assert {one.name for one in topic.authorized_operations} == {
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    }
    for configs in ({"retention.ms": "1000", "flush.ms": "5"}, {"flush.ms": "7"}):
        whole = ConfigResource(ConfigResource.Type.TOPIC, name, set_config=configs)
        librdkafka.alter_configs([whole])[whole].result(SECONDS_MAX)
        view = running_cluster.rest.get(f"/clusters/prod/topics/{name}").json()
        assert view["configs"] == configs


def test_kafka_python_describes_the_cluster_and_the_room_on_each_disk(
    running_cluster: LocalCluster, python_admin: KafkaAdminClient
) -> None:
    described = python_admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in described["brokers"]) == [1, 2, 3]
    for broker in python_admin.describe_log_dirs():
        for directory in broker["log_dirs"]:
            assert 0 < directory["usable_bytes"] <= directory["total_bytes"]


def test_settings_that_tools_set_by_habit_and_throttles_that_they_clear_are_taken(
    running_cluster: LocalCluster, librdkafka: AdminClient
) -> None:
    name = fresh("habits")
    habits = {
        "preallocate": "False",
        "segment.jitter.ms": "1000",
        "compression.type": "zstd",
        "file.delete.delay.ms": "1000",
        "message.timestamp.after.max.ms": "3600000",
        "leader.replication.throttled.replicas": "0:1,0:2",
    }
    wanted = NewTopic(name, num_partitions=1, replication_factor=3, config=habits)
    librdkafka.create_topics([wanted])[name].result(SECONDS_MAX)
    described = librdkafka.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)])
    (configs,) = [future.result(SECONDS_MAX) for future in described.values()]
    assert {key: configs[key].value for key in habits} == habits | {"preallocate": "false"}
    assert configs["remote.storage.enable"].value == "false"
    for operation, items, left in (
        (AlterConfigOpType.APPEND, "compact", "compact,delete"),
        (AlterConfigOpType.SUBTRACT, "delete", "compact"),
    ):
        entry = ConfigEntry("cleanup.policy", items, incremental_operation=operation)
        change = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        librdkafka.incremental_alter_configs([change])[change].result(SECONDS_MAX)
        of_topic = running_cluster.rest.get(f"/clusters/prod/topics/{name}/configs/cleanup.policy").json()
        assert of_topic["value"] == left
    for kind, whose, keys in (
        (
            ConfigResource.Type.TOPIC,
            name,
            ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
        ),
        (
            ConfigResource.Type.BROKER,
            "1",
            ("leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"),
        ),
    ):
        clear = ConfigResource(
            kind,
            whose,
            incremental_configs=[
                ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in keys
            ],
        )
        librdkafka.incremental_alter_configs([clear])[clear].result(SECONDS_MAX)


def test_kafka_python_moves_lists_and_cancels_and_an_operation_follows(
    running_cluster: LocalCluster, python_admin: KafkaAdminClient, librdkafka: AdminClient
) -> None:
    name = fresh("moved")
    create(running_cluster, name, [[1, 2], [2, 1]])
    first, second = kafka.TopicPartition(name, 0), kafka.TopicPartition(name, 1)
    told = python_admin.alter_partition_reassignments({first: [3, 1], kafka.TopicPartition(name, 9): [1, 2]})
    assert told[first] is None
    assert told[kafka.TopicPartition(name, 9)] is kafka.errors.UnknownTopicOrPartitionError
    asked = audited(running_cluster, cause="assign_partitions")
    assert asked["actor"].startswith("unverified:python-tool@127.0.0.1/kafka:")
    operation = running_cluster.rest.get(f"/operations/{asked['operation_id']}").json()
    assert (operation["kind"], operation["actor"]) == ("reassignment", asked["actor"])

    def finished() -> bool:
        return bool(running_cluster.rest.get(operation["links"]["self"]).json()["state"] == "succeeded")

    running_cluster.wait_until("the operation succeeds", finished)
    running_cluster.wait_until(
        "no reassignment is listed", lambda: python_admin.list_partition_reassignments() == {}
    )
    assert shown(running_cluster, name, 0)["replicas"] == [3, 1]
    none = python_admin.alter_partition_reassignments({first: None})
    assert none[first] is kafka.errors.NoReassignmentInProgressError

    _produce(running_cluster, name, 100, partition=1, size_bytes=100_000)  # more than one fetch takes
    throttle = "/clusters/prod/brokers/3/configs/follower.replication.throttled.rate"
    running_cluster.rest.put(throttle, json={"value": "1"}).raise_for_status()  # so that it takes its time
    try:
        assert python_admin.alter_partition_reassignments({second: [2, 1, 3]})[second] is None
        listed = running_cluster.wait_until(
            "the reassignment is listed", lambda: python_admin.list_partition_reassignments([second]) or None
        )
        assert listed[second]["adding_replicas"] == [3]
        assert listed[second]["replicas"] == [2, 1, 3]
        assert python_admin.alter_partition_reassignments({second: None})[second] is None
        assert shown(running_cluster, name, 1)["replicas"] == [2, 1]
        assert audited(running_cluster, cause="cancel_reassignments")["outcome"]["outcome"] == "succeeded"
    finally:
        running_cluster.rest.delete(throttle).raise_for_status()


def test_preferred_leaders_are_elected_by_either_client(
    running_cluster: LocalCluster, librdkafka: AdminClient
) -> None:
    name = fresh("led")
    create(running_cluster, name, [[1, 2]])
    running_cluster.rest.put(
        "/clusters/prod/configs/auto.leader.rebalance.enable", json={"value": "false"}
    ).raise_for_status()
    try:
        needless = librdkafka.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 0)])
        (error,) = needless.result(SECONDS_MAX).values()
        assert error is not None and error.name() == "ELECTION_NOT_NEEDED"
        running_cluster.stop_broker(1)
        try:
            running_cluster.wait_until("broker 2 leads", lambda: running_cluster.leader(name, 0) == 2)
            with pytest.raises(kafka.errors.PreferredLeaderNotAvailableError):
                elect(running_cluster, 0, name)
        finally:
            running_cluster.start_broker(1)
        running_cluster.wait_until_in_sync(name)
        wait_until_clients_hear_of(running_cluster, 1, 2, 3)
        elect(running_cluster, 0, name)
        assert running_cluster.leader(name, 0) == 1
        needless = librdkafka.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(name, 0)])
        (error,) = needless.result(SECONDS_MAX).values()
        assert error is not None and error.name() == "ELECTION_NOT_NEEDED"
    finally:
        running_cluster.rest.delete("/clusters/prod/configs/auto.leader.rebalance.enable").raise_for_status()


def test_an_unclean_election_loses_what_its_preview_said(running_cluster: LocalCluster) -> None:
    name = fresh("lost")
    create(running_cluster, name, [[1, 2]], **{"min.insync.replicas": "1"})
    path = f"/clusters/prod/topics/{name}/partitions/0"
    _produce(running_cluster, name, 10)
    running_cluster.wait_until_in_sync(name)
    running_cluster.stop_broker(2)
    running_cluster.wait_until("1 is alone", lambda: shown(running_cluster, name, 0)["isr"] == [1])
    _produce(running_cluster, name, 5)
    running_cluster.wait_until(
        "the leader has told of them", lambda: shown(running_cluster, name, 0)["high_watermark"] == 15
    )
    running_cluster.kill_broker(1)
    try:
        running_cluster.start_broker(2)

        def told() -> dict[str, Any] | None:
            response = running_cluster.rest.get(f"{path}/loss-preview")
            seen: dict[str, Any] = response.json()
            # A broker tells of its logs as soon as it has registered: a moment before it may lead.
            may_lead = response.status_code == 200 and seen["least"] is not None
            return seen if may_lead and seen["unheard"] == [1] else None

        seen = running_cluster.wait_until("broker 2 tells how far its log goes, and may lead", told)
        assert (seen["least"], seen["last_leader"], seen["last_log_end_offset"]) == (2, 1, 15)
        (candidate,) = [one for one in seen["candidates"] if one["broker_id"] == 2]
        assert (candidate["log_end_offset"], candidate["lost_records"], candidate["lost_committed"]) == (
            10,
            5,
            5,
        )
        wait_until_clients_hear_of(running_cluster, 2, 3)
        elect(running_cluster, 1, name)
        assert running_cluster.leader(name, 0) == 2
        asked = audited(running_cluster, cause="elect_leader_unclean", topic=name)
        assert asked["actor"].startswith("unverified:python-tool@")
        assert asked["outcome"]["detail"].startswith("5 records are lost as far as is known, 5 of them")
        end = running_cluster.wait_until(
            "the new leader reports", lambda: shown(running_cluster, name, 0)["log_end_offset"]
        )
        assert end == 10
    finally:
        running_cluster.start_broker(1)
    running_cluster.wait_until_in_sync(name)
    wait_until_clients_hear_of(running_cluster, 1, 2, 3)


def wait_until_clients_hear_of(cluster: LocalCluster, *brokers: int) -> None:
    """kafka-python asks one broker for the addresses and another for the controller, and gives up where the
    first has not heard yet that the second is back, or the second not what is so now."""
    for broker_id in brokers:
        address = f"127.0.0.1:{cluster.brokers[broker_id].port}"
        with AdminClient({"bootstrap.servers": address}) as opened:

            def is_told(client: AdminClient = opened) -> bool:
                return sorted(client.list_topics(timeout=SECONDS_MAX).brokers) == list(brokers)

            cluster.wait_until(f"broker {broker_id} tells of {brokers}", is_told)


def _produce(
    cluster: LocalCluster, topic: str, count: int, *, partition: int = 0, size_bytes: int = 1
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, b"x" * size_bytes, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def test_kafka_python_creates_and_describes(
    running_cluster: LocalCluster, python_admin: KafkaAdminClient
) -> None:
    name = fresh("py")
    python_admin.create_topics({name: {"assignments": {0: [2, 3], 1: [3, 1]}}}, wait_for_metadata=True)
    assert [shown(running_cluster, name, number)["replicas"] for number in (0, 1)] == [[2, 3], [3, 1]]
    described = python_admin.describe_configs(
        [PythonConfigResource("TOPIC", name)], include_synonyms=True, config_filter="all"
    )
    assert "segment.bytes" in str(described)
    python_admin.delete_topics([name])
    assert running_cluster.rest.get(f"/clusters/prod/topics/{name}").status_code == 404


def test_a_topic_that_an_application_waits_for_is_told_to_the_operator(running_cluster: LocalCluster) -> None:
    """To the application it is a line of its own log, or nothing: rsyslog waits for 30 s for each line."""
    topic = f"lines-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": running_cluster.bootstrap_servers, "client.id": "waits"})
    producer.produce(topic, b"line")
    until = time.monotonic() + SECONDS_MAX
    found: list[dict[str, Any]] = []
    while not found and time.monotonic() < until:
        producer.poll(0.2)
        listed = running_cluster.api.get(f"/clusters/{running_cluster.name}/missing-topics")["items"]
        found = [each for each in listed if each["topic"] == topic]
    producer.purge()
    (missing,) = found
    assert missing["asked"] >= 3
    (client,) = missing["clients"]
    assert client["client_id"] == "waits"
    assert client["software"].startswith("confluent-kafka-python ")
    assert set(missing["nodes"]) <= set(running_cluster.brokers)
