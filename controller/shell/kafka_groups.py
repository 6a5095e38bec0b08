"""Client groups over the Kafka protocol: librdkafka's clients in worker threads, an administration client for
each cluster, which is made on first use and again when the cluster's brokers have other addresses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from controller.shell.client_groups import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    CommittedPlace,
    GroupAbsent,
    GroupBusy,
    GroupDetail,
    GroupListing,
    GroupsUnavailable,
    LogPosition,
    MemberDetail,
    Place,
)
from controller.shell.clock import ControllerClock
from controller.shell.outcomes import OutcomeUnknown
from controller.shell.published import Published

T = TypeVar("T")
Settings = dict[str, str | int | float | bool]

#: One request, with the search for who answers it.
REQUEST_S: Final = 5.0
#: One request, with the wait for a thread.
ANSWER_MS_MAX: Final = 8_000
THREADS_MAX: Final = 4
RECORD_TIMES_MS_MAX: Final = 1_500
RECORD_BYTES: Final = 16_384
LIST_ERRORS_MAX: Final = 20
CLIENT_ID: Final = "springtide-controller"

_ABSENT: Final = frozenset(
    # The third: a group of another protocol, such as Kafka Connect's.
    {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID, KafkaError._INVALID_ARG}
)
_BUSY: Final = frozenset(
    {
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_SPECS: Final[Mapping[int, Callable[[], OffsetSpec]]] = {
    EARLIEST: OffsetSpec.earliest,
    LATEST: OffsetSpec.latest,
    MAX_TIMESTAMP: OffsetSpec.max_timestamp,
}


class KafkaTls(NamedTuple):
    """Files in PEM. ca: "" trusts the CAs of the system. cert, key: what is shown; "" shows nothing."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def settings(self) -> Settings:
        named = {
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.cert,
            "ssl.key.location": self.key,
        }
        return {key: file for key, file in named.items() if file}


class Bootstrap(NamedTuple):
    """Where to ask a cluster first."""

    servers: str
    is_tls: bool


class KafkaGroups:
    """Implements ClientGroups. view_of: the published view of a cluster; raises UnknownCluster. tls: for
    clusters whose inter-broker listeners have it."""

    def __init__(
        self, view_of: Callable[[str], Published], clock: ControllerClock, *, tls: KafkaTls | None = None
    ) -> None:
        self._view_of = view_of
        self._tls = tls or KafkaTls()
        self._clock = clock
        self._threads = anyio.CapacityLimiter(THREADS_MAX)
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[Settings, AdminClient]] = {}

    async def listed(self, cluster: str) -> tuple[list[GroupListing], list[str]]:
        return await self._ask(cluster, _listed)

    async def described(self, cluster: str, group_id: str) -> GroupDetail:
        return await self._ask(cluster, partial(_described, _sendable(group_id)))

    async def committed(self, cluster: str, group_id: str) -> dict[Place, CommittedPlace]:
        return await self._ask(cluster, partial(_committed, _sendable(group_id)))

    async def log_offsets(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, LogPosition]:
        return await self._ask(cluster, partial(_log_offsets, wanted)) if wanted else {}

    async def record_times(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, int]:
        if not wanted:
            return {}
        read = partial(_record_times, self._settings(cluster), wanted, self._clock)
        with self._clock.timeout_ms(ANSWER_MS_MAX):
            return await self._in_thread(read)
        return {}

    async def commit(self, cluster: str, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, str]:
        return await self._ask(cluster, partial(_commit, _sendable(group_id), offsets), is_write=True)

    async def delete(self, cluster: str, group_id: str) -> None:
        await self._ask(cluster, partial(_delete, _sendable(group_id)), is_write=True)

    async def _ask(self, cluster: str, ask: Callable[[AdminClient], T], *, is_write: bool = False) -> T:
        settings = self._settings(cluster)
        silence = f"no coordinator answered within {REQUEST_S:g} s"
        lost: Exception = OutcomeUnknown(silence) if is_write else GroupsUnavailable(silence)

        def work() -> T:
            try:
                client = self._client(cluster, settings)
                try:
                    return ask(client)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                        raise
                # The library remembers a group's coordinator for minutes, also when it says so.
                self._forget(cluster, client)
                return ask(self._client(cluster, settings))
            except TimeoutError:
                raise lost from None
            except KafkaException as error:
                raise _failure(error.args[0], lost) from error

        with self._clock.timeout_ms(ANSWER_MS_MAX):
            return await self._in_thread(work)
        raise lost

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def _settings(self, cluster: str) -> Settings:
        """Raise GroupsUnavailable."""
        bootstrap = bootstrap_of(self._view_of(cluster))
        # Failures are told by the answers; the library would print them to stderr, in lines of its own.
        settings: Settings = {
            "bootstrap.servers": bootstrap.servers,
            "client.id": CLIENT_ID,
            "log_level": 0,
        }
        return settings | {"security.protocol": "SSL"} | self._tls.settings if bootstrap.is_tls else settings

    def _client(self, cluster: str, settings: Settings) -> AdminClient:
        """Return the cluster's client. Runs in a worker thread, where the end of the one before may wait."""
        with self._lock:
            found = self._clients.get(cluster)
            if found is None or found[0] != settings:
                found = self._clients[cluster] = (settings, AdminClient(settings))
            return found[1]

    def _forget(self, cluster: str, client: AdminClient) -> None:
        with self._lock:
            if (found := self._clients.get(cluster)) is not None and found[1] is client:
                del self._clients[cluster]


def bootstrap_of(view: Published) -> Bootstrap:
    """Return the inter-broker addresses of the cluster's brokers. Raise GroupsUnavailable without brokers, or
    without a coordinator that could answer."""
    image = view.image
    if not any(coordinator.is_active for coordinator in image.coordinators.values()):
        raise GroupsUnavailable(f"no coordinator of {view.cluster!r} is admitted and live")
    brokers = [broker for _, broker in sorted(image.brokers.items()) if broker.admitted]
    if not brokers:
        raise GroupsUnavailable(f"{view.cluster!r} has no broker that could name a coordinator")
    is_tls = any(
        (told.host, told.port, told.protocol) == (broker.host, broker.port, "SSL")
        for broker in brokers
        for told in broker.listeners.values()
    )
    hosts = [f"[{broker.host}]" if ":" in broker.host else broker.host for broker in brokers]
    servers = ",".join(f"{host}:{broker.port}" for host, broker in zip(hosts, brokers, strict=True))
    return Bootstrap(servers, is_tls)


def _sendable(group_id: str) -> str:
    """Return the id. Raise GroupAbsent if the library would end it at a NUL and name another group."""
    if "\0" in group_id:
        raise GroupAbsent("an id with a NUL in it can't be asked for")
    return group_id


def _failure(error: KafkaError, lost: Exception) -> Exception:
    """Return the failure for the library's error. lost: of an answer that may have been lost."""
    if error.code() in _ABSENT:
        return GroupAbsent(error.str())
    if error.code() in _BUSY:
        return GroupBusy(error.str())
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT):
        return lost
    return GroupsUnavailable(f"the cluster answered: {error.str()}")


def _state_of(found: ConsumerGroupState) -> str:
    return found.name.lower().replace("rebalancing", "rebalance")


def _protocol_type(*, is_simple: bool) -> str:
    return "" if is_simple else "consumer"


def _listed(client: AdminClient) -> tuple[list[GroupListing], list[str]]:
    result = client.list_consumer_groups(request_timeout=REQUEST_S).result(REQUEST_S + 1)
    groups = [
        GroupListing(
            group_id=one.group_id,
            state=_state_of(one.state),
            protocol_type=_protocol_type(is_simple=one.is_simple_consumer_group),
        )
        for one in result.valid
    ]
    # Of each broker that did not answer; the library's documents call them exceptions, which they are not.
    errors: list[KafkaError] = result.errors
    if errors and not groups:
        raise KafkaException(errors[0])
    return groups, [error.str() for error in errors[:LIST_ERRORS_MAX]]


def _described(group_id: str, client: AdminClient) -> GroupDetail:
    (future,) = client.describe_consumer_groups([group_id], request_timeout=REQUEST_S).values()
    found = future.result(REQUEST_S + 1)
    if found.state is ConsumerGroupState.DEAD:
        raise GroupAbsent("its coordinator does not know it")
    return GroupDetail(
        group_id=group_id,
        state=_state_of(found.state),
        protocol_type=_protocol_type(is_simple=found.is_simple_consumer_group),
        assignor=found.partition_assignor or "",
        coordinator_id=found.coordinator.id,
        endpoint=f"{found.coordinator.host}:{found.coordinator.port}",
        members=tuple(
            MemberDetail(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.host,
                assigned=tuple((one.topic, one.partition) for one in member.assignment.topic_partitions),
            )
            for member in found.members
        ),
    )


def _committed(group_id: str, client: AdminClient) -> dict[Place, CommittedPlace]:
    request = ConsumerGroupTopicPartitions(group_id)
    (future,) = client.list_consumer_group_offsets([request], request_timeout=REQUEST_S).values()
    return {
        (one.topic, one.partition): CommittedPlace(offset=one.offset, leader_epoch=one.leader_epoch)
        for one in future.result(REQUEST_S + 1).topic_partitions
        if one.error is None and one.offset >= 0
    }


def _log_offsets(wanted: Mapping[Place, int], client: AdminClient) -> dict[Place, LogPosition]:
    specs = {
        TopicPartition(*place): _SPECS[at]() if at in _SPECS else OffsetSpec.for_timestamp(at)
        for place, at in wanted.items()
    }
    found: dict[Place, LogPosition] = {}
    for one, future in client.list_offsets(specs, request_timeout=REQUEST_S).items():
        try:
            told = future.result(REQUEST_S + 1)
        except (KafkaException, TimeoutError):
            continue
        found[one.topic, one.partition] = LogPosition(
            offset=told.offset, timestamp_ms=told.timestamp if told.timestamp >= 0 else None
        )
    return found


def _record_times(
    settings: Settings, wanted: Mapping[Place, int], clock: ControllerClock
) -> dict[Place, int]:
    """Read each place with a consumer by assignment until it has given a record, or the time is over."""
    consumer = Consumer(
        {
            **settings,
            "group.id": CLIENT_ID,  # has to be there; nothing is joined or committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": RECORD_BYTES,
            "queued.min.messages": 1,
        }
    )
    found: dict[Place, int] = {}
    open_places = set(wanted)
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in wanted.items()])
        end_ms = clock.now_mono_ms() + RECORD_TIMES_MS_MAX
        while open_places and (left_ms := end_ms - clock.now_mono_ms()) > 0:
            message = consumer.poll(left_ms / 1000)
            if message is None or message.error() is not None:
                continue
            place = (message.topic(), message.partition())
            if place in open_places:
                open_places.remove(place)
                consumer.pause([TopicPartition(*place)])
                _, timestamp_ms = message.timestamp()
                if timestamp_ms >= 0:
                    found[place] = timestamp_ms
    finally:
        consumer.close()
    return found


def _commit(group_id: str, offsets: Mapping[Place, int], client: AdminClient) -> dict[Place, str]:
    request = ConsumerGroupTopicPartitions(
        group_id, [TopicPartition(*place, offset) for place, offset in offsets.items()]
    )
    (future,) = client.alter_consumer_group_offsets([request], request_timeout=REQUEST_S).values()
    failed = {
        (one.topic, one.partition): one.error
        for one in future.result(REQUEST_S + 1).topic_partitions
        if one.error is not None
    }
    for error in failed.values():
        if error.code() in _BUSY:
            raise GroupBusy(error.str())
    return {place: error.str() for place, error in failed.items()}


def _delete(group_id: str, client: AdminClient) -> None:
    (future,) = client.delete_consumer_groups([group_id], request_timeout=REQUEST_S).values()
    future.result(REQUEST_S + 1)
