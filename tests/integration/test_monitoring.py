"""Controllers and brokers tell what alert rules and dashboards ask for: Kafka's, and those in monitoring/.

The usual ones are not copied; here are the names and labels that they need, as facts about them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio.testing
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from controller.core.effects import AlarmCode
from springtide.node.status import StatusServer
from tests.kit.admin_api.rest import controller
from tests.kit.dataplane.clients_in_threads import produce
from tests.kit.dataplane.cluster_in_process import cluster_in_process
from tests.kit.memory.zookeeper import MemoryZooKeeper
from tests.kit.promql import named_in

MONITORING: Final = Path(__file__).parents[2] / "monitoring"
#: What Prometheus adds to every sample.
TARGET_LABELS: Final = frozenset({"job", "instance"})
#: Prometheus's own, one sample a target: whether it answered.
OF_PROMETHEUS: Final = {"up": [(dict[str, str](), 1.0)]}

#: Strimzi's examples/metrics/prometheus-install/prometheus-rules/prometheus-kafka-rules.yaml. Left out, being
#: about Kubernetes: KafkaRunningOutOfSpace (kubelet_volume_stats_*), ScrapeProblem (`up` with labels of
#: Strimzi), KafkaNodeContainersDown and KafkaContainerRestartedInTheLast5Minutes (container_last_seen).
STRIMZI_RULES: Final[dict[str, frozenset[str]]] = {
    "kafka_server_replicamanager_underreplicatedpartitions": frozenset(),
    "kafka_controller_kafkacontroller_activecontrollercount": frozenset(),
    "kafka_controller_kafkacontroller_offlinepartitionscount": frozenset(),
    "kafka_server_replicamanager_underminisrpartitioncount": frozenset(),
    "kafka_log_logmanager_offlinelogdirectorycount": frozenset(),
}
#: Strimzi's older examples/metrics/prometheus-install/prometheus-rules.yaml, about kafka_exporter.
STRIMZI_EXPORTER_RULES: Final = {
    "kafka_topic_partition_under_replicated_partition": frozenset({"topic", "partition"}),
    "kafka_topic_partition_current_offset": frozenset({"topic", "partition"}),
    "kafka_consumergroup_lag": frozenset({"consumergroup", "topic", "partition"}),
}
#: Grafana's dashboard 7589 (Kafka Exporter Overview) and kafka_exporter's kafka_exporter_overview.json.
GRAFANA_7589: Final = {
    "kafka_consumergroup_current_offset": frozenset({"consumergroup", "topic"}),
    "kafka_consumergroup_lag": frozenset({"consumergroup", "topic"}),
    "kafka_topic_partition_current_offset": frozenset({"topic"}),
    "kafka_topic_partitions": frozenset({"topic"}),
}
#: kafka_exporter's README: what else it tells that rules of others use.
KAFKA_EXPORTER: Final = {
    "kafka_consumergroup_current_offset_sum": frozenset({"consumergroup", "topic"}),
    "kafka_consumergroup_lag_sum": frozenset({"consumergroup", "topic"}),
    "kafka_consumergroup_lag_seconds": frozenset({"consumergroup", "topic", "partition"}),
    "kafka_consumergroup_members": frozenset({"consumergroup"}),
    "kafka_brokers": frozenset[str](),
    "kafka_topic_partition_oldest_offset": frozenset({"topic", "partition"}),
}

Scraped = dict[str, list[tuple[dict[str, str], float]]]


def sampled(*pages: str) -> Scraped:
    """All samples of some pages, by name."""
    found: Scraped = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def controllers_tell() -> list[str]:
    """The pages of an active controller and of a standby."""
    zookeeper = MemoryZooKeeper()
    async with controller(zookeeper) as active, controller(zookeeper, name="c2", is_active=False) as standby:
        await active.form()
        await active.create_topic("orders", partitions=2)
        return [(await one.client.get("/metrics")).text for one in (active, standby)]


async def nodes_tell(directory: Path) -> list[str]:
    """The pages of two brokers, each the leader of a partition with records in it, and of a coordinator, for
    whose group one of two records is read."""

    async def page(status: StatusServer | None) -> str:
        assert status is not None
        async with httpx.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{status.address[1]}/metrics")).text

    async with cluster_in_process(directory) as cluster:
        await cluster.form(1, 2)
        topic_id = cluster.controller.create_topic("orders", ((1, 2), (2, 1)))
        for partition in (0, 1):
            await cluster.wait_isr(topic_id, 1, 2, partition=partition)
        await produce(cluster.bootstrap(), "orders", [b"a", b"b"], acks="all")
        await cluster.form_coordinators(1001)
        await trio.to_thread.run_sync(commit, cluster.bootstrap())
        process = cluster.coordinators[1001].process
        await process.groups.look()
        pages = [await page(running.broker.node.status) for running in cluster.brokers.values()]
        return [*pages, await page(process.node.status)]


def commit(bootstrap: str) -> None:
    """Commit, as a client that manages its partitions itself; again while shards are being opened."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    try:
        while True:
            try:
                consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    """What two controllers, two brokers and a coordinator tell of a topic of two partitions."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    pages = trio.run(controllers_tell, clock=clock)
    return sampled(*pages, *trio.run(nodes_tell, tmp_path_factory.mktemp("brokers")))


@pytest.mark.parametrize(
    "needed",
    [STRIMZI_RULES, STRIMZI_EXPORTER_RULES, GRAFANA_7589, KAFKA_EXPORTER],
    ids=["strimzi", "strimzi-exporter", "7589", "kafka_exporter"],
)
def test_kafkas_usual_rules_and_dashboards_find_what_they_ask_for(
    scraped: Scraped, needed: dict[str, frozenset[str]]
) -> None:
    missing = [name for name in needed if name not in scraped]
    assert missing == []
    for name, labels in needed.items():
        assert all(labels <= sample.keys() for sample, _ in scraped[name]), name


def test_sums_over_all_processes_count_each_thing_once(scraped: Scraped) -> None:
    def total(name: str) -> float:
        return sum(value for _, value in scraped[name])

    assert total("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert total("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert [(labels["topic"], value) for labels, value in scraped["kafka_topic_partitions"]] == [
        ("orders", 2)
    ]
    assert total("kafka_brokers") == 3  # that the controllers know
    told = [
        labels["partition"]
        for labels, _ in scraped["kafka_topic_partition_current_offset"]
        if labels["topic"] == "orders"
    ]
    assert sorted(told) == ["0", "1"]
    assert (
        sum(
            value
            for labels, value in scraped["kafka_topic_partition_current_offset"]
            if labels["topic"] == "orders"
        )
        == 2
    )
    billing = {"consumergroup": "billing", "topic": "orders"}
    assert scraped["kafka_consumergroup_current_offset"] == [(billing | {"partition": "0"}, 1)]
    assert scraped["kafka_consumergroup_lag"] == [(billing | {"partition": "0"}, 1)]
    assert scraped["kafka_consumergroup_lag_sum"] == [(billing, 1)]
    assert scraped["kafka_consumergroup_members"] == [({"consumergroup": "billing"}, 0)]
    assert total("kafka_topic_partition_oldest_offset") == 0
    assert {value for _, value in scraped["kafka_topic_partition_under_replicated_partition"]} <= {0, 1}
    assert all(value > 0 for _, value in scraped["springtide_log_dir_free_bytes"])


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))["panels"]
    return found


def expressions() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + asked


def test_our_rules_and_our_dashboard_ask_only_for_what_is_told(scraped: Scraped) -> None:
    scraped = {**scraped, **OF_PROMETHEUS}
    for expression in expressions():
        named = named_in(expression)
        assert named.metrics, expression
        for name, labels in named.metrics.items():
            assert name in scraped, expression
            asked = labels | named.groups
            assert all(asked <= sample.keys() | TARGET_LABELS for sample, _ in scraped[name]), expression


def test_texts_name_only_labels_that_their_expressions_have(scraped: Scraped) -> None:
    scraped = {**scraped, **OF_PROMETHEUS}
    texts = [(rule["expr"], " ".join(rule["annotations"].values())) for rule in rules()]
    texts += [(one["expr"], one.get("legendFormat", "")) for panel in panels() for one in panel["targets"]]
    for expression, text in texts:
        named = named_in(expression)
        shown = set(re.findall(r"\$labels\.(\w+)", text)) | set(re.findall(r"\{\{(\w+)\}\}", text))
        for name in named.metrics:
            has = set(named.groups) if named.groups else set(scraped[name][0][0]) | TARGET_LABELS
            assert shown <= has, (expression, text)


def test_each_alarm_of_the_controller_is_in_one_rule(scraped: Scraped) -> None:
    matched = [
        code
        for rule in rules()
        for alternatives in re.findall(r'springtide_alarms\{code=~?"([^"]*)"\}', rule["expr"])
        for code in alternatives.split("|")
    ]
    assert sorted(matched) == sorted(AlarmCode)
    assert {labels["code"] for labels, _ in scraped["springtide_alarms"]} == set(AlarmCode)


def test_rules_and_panels_are_whole() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
    places = [tuple(panel["gridPos"].values()) for panel in panels()]
    assert len(places) == len(set(places)) == len({panel["id"] for panel in panels()})


def test_prometheus_takes_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's prometheus) is not here")
    done = subprocess.run(
        [promtool, "check", "rules", str(MONITORING / "alerts.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
