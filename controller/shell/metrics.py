"""The controller's metrics, under the names that Kafka's dashboards and alerts know.

A collector reads the engine when it is scraped: nothing counts twice, and nothing is kept at module level,
where several controllers in one interpreter would share it. As in Kafka, only the active controller says
anything about clusters; the sum of `activecontrollercount` over all controllers is exactly one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.core.image import ClusterImage
from controller.shell.engine import Engine
from springtide.contract.session import BrokerStatus

_KAFKA: Final = "kafka_controller_kafkacontroller_"
_OURS: Final = "springtide_controller_"


class EngineCollector(Collector):
    """Register it with the registry that `/metrics` renders."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not scrape an engine that is not running yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        engine = self._engine
        is_active = engine.role == "active"
        yield GaugeMetricFamily(
            f"{_KAFKA}activecontrollercount", "1 on the active controller", 1 if is_active else 0
        )
        yield GaugeMetricFamily(
            f"{_OURS}zookeeper_connected", "Whether ZooKeeper is connected", int(engine.zookeeper_connected)
        )
        yield GaugeMetricFamily(
            f"{_OURS}controller_epoch", "Of the active controller", engine.controller_epoch
        )
        yield CounterMetricFamily(
            f"{_OURS}elections_won", "Times this process became active", engine.leadership.elections_won
        )
        yield GaugeMetricFamily(
            f"{_OURS}loop_held_ms_max",
            "Longest time for which the event loop was held since the start, ms",
            engine.loop_watch.held_ms_max,
        )
        drivers = list(engine.drivers) if is_active else []
        yield CounterMetricFamily(
            f"{_OURS}persisted_records",
            "Records written to ZooKeeper by this process",
            engine.drivers.persisted_records,
        )
        yield CounterMetricFamily(
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Leaders elected outside the in-sync set",
            engine.drivers.unclean_elections,
        )
        for name, text, count_in in _CLUSTER_GAUGES:
            values = [(driver.cluster, count_in(driver.published.image)) for driver in drivers]
            yield _by_cluster(name, text, values)
        alarms = GaugeMetricFamily("springtide_alarms", "Alarms that are up", labels=["cluster", "code"])
        partitions = GaugeMetricFamily(
            "kafka_topic_partitions",
            "Partitions of a topic, as kafka_exporter counts",
            labels=["cluster", "topic"],
        )
        for driver in drivers:
            for code, count in driver.machine.alarm_counts().items():
                alarms.add_metric([driver.cluster, code.value], count)
            for topic in driver.published.image.topics.values():
                if not topic.deleting:
                    partitions.add_metric([driver.cluster, topic.topic], topic.partitions)
        yield alarms
        yield partitions
        yield _by_cluster(
            f"{_OURS}metadata_went_back",
            "1 where ZooKeeper lost metadata that it once held, and nothing is decided any more",
            [(driver.cluster, int(driver.machine.went_back is not None)) for driver in drivers],
        )
        yield _by_cluster(
            f"{_OURS}persist_milliseconds",
            "Duration of the last write to ZooKeeper",
            [(driver.cluster, driver.persist_ms_last) for driver in drivers],
        )


_CLUSTER_GAUGES: Final[tuple[tuple[str, str, Callable[[ClusterImage], int]], ...]] = (
    (f"{_KAFKA}offlinepartitionscount", "Partitions without a leader", lambda image: len(image.leaderless)),
    (
        f"{_KAFKA}preferredreplicaimbalancecount",
        "Partitions led by another than the preferred replica",
        lambda image: len(image.not_preferred),
    ),
    (
        f"{_KAFKA}globalpartitioncount",
        "Partitions of all topics",
        lambda image: len(image.partitions) - sum(image.topics[t].partitions for t in image.kept),
    ),
    (f"{_KAFKA}globaltopiccount", "Topics", lambda image: len(image.topic_ids)),
    (
        f"{_KAFKA}topicstodeletecount",
        "Topics whose replicas have not all confirmed their deletion",
        lambda image: len(image.deletions) - len(image.kept),
    ),
    (
        f"{_OURS}keptdeletedtopics",
        "Deleted topics whose records are kept",
        lambda image: len(image.kept),
    ),
    (
        f"{_KAFKA}activebrokercount",
        "Brokers that serve",
        lambda image: _count(image, BrokerStatus.ACTIVE, BrokerStatus.SHUTTING_DOWN),
    ),
    (
        "kafka_brokers",
        "Brokers that serve, as kafka_exporter counts",
        lambda image: _count(image, BrokerStatus.ACTIVE, BrokerStatus.SHUTTING_DOWN),
    ),
    (
        f"{_KAFKA}fencedbrokercount",
        "Admitted brokers that do not serve",
        lambda image: _count(image, BrokerStatus.FENCED),
    ),
    (
        f"{_OURS}underminisrpartitions",
        "Partitions with fewer in-sync replicas than the minimum",
        lambda image: len(image.below_min),
    ),
)


def _count(image: ClusterImage, *statuses: BrokerStatus) -> int:
    return sum(broker.status in statuses for broker in image.brokers.values())


def _by_cluster(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["cluster"])
    for cluster, value in values:
        family.add_metric([cluster], value)
    return family
