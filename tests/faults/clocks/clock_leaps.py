"""What happens, in order: records are written all the time, clocks leap one by one, and all is read again.

Everything acknowledged has to be there at the end, each leap to be an alarm while it lasts, and records that
are really old to be deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.faults.family import Trial
from tests.faults.hosts.cluster import HostCluster, broker_host

DAY_SECONDS = 24 * 60 * 60
TOPIC = "kept"
BRIEF_TOPIC = "brief"
PARTITIONS = 3
#: Records are kept for a week: a leap of eight days makes every one of them look too old.
TOPIC_CONFIGS = {
    "min.insync.replicas": "2",
    "segment.bytes": "65536",
    "retention.ms": str(7 * DAY_SECONDS * 1000),
}
BRIEF_CONFIGS = {"min.insync.replicas": "2", "retention.ms": "5000"}
LOOK_MS = 1_000
"""Brokers look this often for what has expired."""
SETTLE_SECONDS = 3.0
ALARM_SECONDS_MAX = 30.0
EXPIRE_SECONDS_MAX = 120.0
WATERMARKS_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Leap:
    """is_leader: of the broker that leads a partition, or of one that follows there. is_restart: its process
    is killed, and the next one starts with the wrong clock."""

    days: float
    seconds: float
    is_leader: bool = True
    is_restart: bool = False


CI = (Leap(8, 7.0), Leap(-8, 4.0))
LEAPS: dict[str, tuple[Leap, ...]] = {
    "ci": CI,
    "full": (
        *CI,
        Leap(8, 7.0, is_leader=False),
        Leap(400, 5.0),
        Leap(8, 12.0, is_restart=True),
        Leap(-8, 12.0, is_restart=True),
        Leap(0.25, 5.0),
        Leap(8, 30.0),
    ),
}

Tell = Callable[[str], object]


@dataclass(slots=True)
class Writer:
    """Writes numbered records, acks=all, from a thread, until it is stopped."""

    bootstrap_servers: str
    acked: set[bytes] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value()
            if error is None and value is not None:
                self.acked.add(value)

        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            producer.produce(
                TOPIC, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered
            )
            producer.poll(0)
            number += 1
        producer.flush(60.0)


def run(trial: Trial, leaps: tuple[Leap, ...]) -> None:
    tell = trial.tell
    cluster = HostCluster(
        trial.directory,
        brokers=3,
        controllers=1,
        zookeepers=1,
        broker_config={"log.retention.check.interval.ms": str(LOOK_MS)},
        clock_faults=True,
        on_progress=tell,
    )
    with cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=TOPIC_CONFIGS)
        writer = Writer(cluster.bootstrap_servers)
        writer.start()
        try:
            time.sleep(SETTLE_SECONDS)
            for leap in leaps:
                trial.faults["wall clock leaps"] += 1
                trial.failures += play(cluster, leap, tell, written=lambda: len(writer.acked))
        finally:
            writer.stop()
        cluster.wait_until_in_sync(TOPIC)
        read, starts, unfinished = read_all(cluster)
        trial.failures += unfinished.values()
        trial.lost = sum(int(value) % PARTITIONS not in unfinished for value in writer.acked - read)
        tell(f"{len(writer.acked)} records were acknowledged, {trial.lost} are gone; log starts {starts}")
        trial.figures |= {"records acknowledged": len(writer.acked), "records read": len(read)}
        expired_seconds = expire(cluster, tell)
        if expired_seconds is None:
            trial.failures.append(f"what was really old was not deleted within {EXPIRE_SECONDS_MAX:g} s")
        else:
            trial.figures["old records deleted after, s"] = round(expired_seconds, 1)


def play(cluster: HostCluster, leap: Leap, tell: Tell, *, written: Callable[[], int]) -> list[str]:
    """One leap, and back; what was wrong with it."""
    leader = cluster.leader(TOPIC, 0)
    broker = leader if leap.is_leader else next(b for b in cluster.brokers if b != leader)
    host = cluster.hosts[broker_host(broker)]
    before = written()
    how = "starts with its clock" if leap.is_restart else "has its clock"
    tell(f"broker {broker} {how} {leap.days:+g} days off for {leap.seconds:g} s; {before} records so far")
    if leap.is_restart:
        cluster.kill_broker(broker)
    host.shift_clock(leap.days * DAY_SECONDS)
    if leap.is_restart:
        cluster.start_broker(broker)
    ends_at = time.monotonic() + leap.seconds
    gives_up_at = ends_at + ALARM_SECONDS_MAX
    told = ""
    while (now := time.monotonic()) < ends_at or (not told and now < gives_up_at):
        told = alarm_of(cluster, broker) or told
        time.sleep(0.25)
    host.shift_clock(0)
    tell(told or "no alarm")
    try:
        cluster.wait_until("no clock alarm is up", lambda: alarm_of(cluster, broker) is None or None)
    except TimeoutError as error:
        return [str(error)]
    cluster.wait_until_in_sync(TOPIC)
    return [] if told else [f"broker {broker}'s clock was {leap.days:+g} days off, and there was no alarm"]


def alarm_of(cluster: HostCluster, broker: int) -> str | None:
    alarms = cluster.api.get(f"/clusters/{cluster.name}/alarms")["items"]
    return next((a["detail"] for a in alarms if a["code"] == "clock_leap" and a["broker_id"] == broker), None)


def open_consumer(cluster: HostCluster) -> Consumer:
    """A reader that commits nothing. Else librdkafka fetches nothing of the next partition before offsets of
    the last one are committed; it waits a minute for a group coordinator, and there is none."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "clocks",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Where the log begins and ends. A leader may have gone just now: asked again for a while."""
    give_up_at = time.monotonic() + WATERMARKS_SECONDS_MAX
    while True:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10.0)
            return start, end
        except KafkaException:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.5)


def read_all(cluster: HostCluster) -> tuple[set[bytes], list[int], dict[int, str]]:
    """Every value from the first offset to the end, where the logs begin, and by partition what was not read
    to its end in time: of its records nothing can be said."""
    consumer = open_consumer(cluster)
    read: set[bytes] = set()
    starts: list[int] = []
    unfinished: dict[int, str] = {}
    try:
        for partition in range(PARTITIONS):
            start, end = watermarks(consumer, TOPIC, partition)
            starts.append(start)
            consumer.assign([TopicPartition(TOPIC, partition, start)])
            give_up_at = time.monotonic() + READ_SECONDS_MAX
            position = start
            while position < end and time.monotonic() < give_up_at:
                for message in consumer.consume(500, timeout=1.0):
                    value, offset = message.value(), message.offset()
                    if message.error() is None and value is not None and offset is not None:
                        read.add(value)
                        position = offset + 1
            if position < end:
                unfinished[partition] = (
                    f"{TOPIC}-{partition}: read to offset {position} of {end} "
                    f"in {READ_SECONDS_MAX:g} s, unfinished"
                )
    finally:
        consumer.close()
    return read, starts, unfinished


def expire(cluster: HostCluster, tell: Tell) -> float | None:
    """Seconds until records were deleted that are kept for five; None: they were not."""
    cluster.create_topic(BRIEF_TOPIC, partitions=1, replication_factor=3, configs=BRIEF_CONFIGS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(50):
        producer.produce(BRIEF_TOPIC, value=b"%d" % number, partition=0)
    producer.flush(20.0)
    consumer = open_consumer(cluster)
    began_at = time.monotonic()
    try:
        while (seconds := time.monotonic() - began_at) < EXPIRE_SECONDS_MAX:
            start, end = watermarks(consumer, BRIEF_TOPIC, 0)
            if start == end == 50:
                tell(f"records that are kept for 5 s were deleted after {seconds:.1f} s")
                return seconds
            time.sleep(0.5)
    finally:
        consumer.close()
    return None
