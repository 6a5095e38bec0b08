"""Questions of the controller to a cluster's nodes over the Kafka protocol: to all coordinators, to the one
that a name belongs to, and to leaders. A question has connections of its own, which end with it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from controller.shell.client_groups import GroupsUnavailable, Place
from controller.shell.clock import ControllerClock
from controller.shell.group_messages import PASSING, VERSIONS, KafkaRefusal, check
from controller.shell.kafka_connection import KafkaConnection, KafkaPeer, NodeLost, connected
from controller.shell.outcomes import OutcomeUnknown
from controller.shell.published import Published
from springtide.tls import KafkaTls, TlsFilesInvalid
from springtide.wire.apis import ApiKey

T = TypeVar("T")

#: What FindCoordinator is asked for.
GROUP: Final = 0
TRANSACTION: Final = 1

#: One question, with the search for who answers it and the wait for its turn.
QUESTION_MS_MAX: Final = 5_000
QUESTIONS_AT_ONCE_MAX: Final = 8
#: The wait for one broker's word on who coordinates a name, before another is asked.
FIND_MS_MAX: Final = 2_000
RETRY_MS: Final = 250
#: What passes is tried again for so long, which leaves the last try time for its answer.
RETRIED_MS_MAX: Final = 3_500
#: A list is told without those that do not answer: it waits less for them.
LIST_RETRIED_MS_MAX: Final = 1_000
LEADERS_AT_ONCE_MAX: Final = 16
LIST_ERRORS_MAX: Final = 20
NOUNS: Final[Mapping[ApiKey, str]] = {ApiKey.LIST_GROUPS: "groups", ApiKey.LIST_TRANSACTIONS: "transactions"}


class KafkaQuestions:
    """view_of: the published view of a cluster; raises UnknownCluster. tls: for clusters whose inter-broker
    listeners have it."""

    def __init__(
        self, view_of: Callable[[str], Published], clock: ControllerClock, *, tls: KafkaTls | None = None
    ) -> None:
        self.view_of = view_of
        self._tls = tls or KafkaTls()
        self._clock = clock
        self._turns = anyio.CapacityLimiter(QUESTIONS_AT_ONCE_MAX)

    async def of_each_coordinator(
        self,
        cluster: str,
        api_key: ApiKey,
        fields: Mapping[str, object],
        read: Callable[[KafkaPeer, Any], Mapping[str, T]],
    ) -> tuple[dict[str, T], list[str]]:
        """Return what all coordinators know, and why some did not answer. Raise GroupsUnavailable if none
        tells anything."""
        view = self.view_of(cluster)
        coordinators = coordinators_of(view)
        found: dict[str, T] = {}
        silent = dict.fromkeys(coordinators, f"no answer within {QUESTION_MS_MAX / 1000:g} s")
        until_ms = self._clock.now_mono_ms() + LIST_RETRIED_MS_MAX

        async def ask_one(way: Way, node: KafkaPeer) -> None:
            while True:
                try:
                    answer = await way.ask(node, api_key, fields)
                    check(answer.error_code)
                    # There may be a hundred thousand.
                    found.update(await anyio.to_thread.run_sync(read, node, answer))
                    del silent[node]
                    return
                except NodeLost as error:
                    silent[node] = error.reason
                except KafkaRefusal as error:
                    silent[node] = str(error)
                    if error.code not in PASSING:
                        return
                if self._clock.now_mono_ms() >= until_ms:
                    return
                await self._clock.sleep_ms(RETRY_MS)

        async with self.way(view) as way:
            await at_once(partial(ask_one, way, node) for node in coordinators)
        errors = [f"{node.endpoint}: {reason}" for node, reason in silent.items()]
        if errors and not found:
            raise GroupsUnavailable(f"a coordinator did not tell its {NOUNS[api_key]}: {errors[0]}")
        return found, errors[:LIST_ERRORS_MAX]

    async def of_coordinator(
        self,
        cluster: str,
        key: str,
        api_key: ApiKey,
        fields: Mapping[str, object],
        read: Callable[[KafkaPeer, Any], T],
        *,
        key_type: int = GROUP,
        is_write: bool = False,
    ) -> T:
        """Ask the coordinator of a group or a transactional id, and look for it again as long as that is on
        its way to another. A write whose answer is lost is not sent again."""
        silence = f"no coordinator answered within {QUESTION_MS_MAX / 1000:g} s"
        lost: Exception = GroupsUnavailable(silence)
        until_ms = self._clock.now_mono_ms() + RETRIED_MS_MAX
        view = self.view_of(cluster)
        coordinators_of(view)
        async with self.way(view) as way:
            while True:
                is_sent = False
                try:
                    owner = await way.coordinator_of(key, key_type)
                    is_sent = is_write
                    lost = OutcomeUnknown(silence) if is_sent else lost
                    return read(owner, await way.ask(owner, api_key, fields))
                except KafkaRefusal as error:
                    lost = error.failure()
                    if error.code not in PASSING:
                        break
                except NodeLost as error:
                    if is_sent and error.may_have_heard:
                        lost = OutcomeUnknown(f"{silence}: {error}")
                        break
                    lost = GroupsUnavailable(f"{silence}: {error}")
                if self._clock.now_mono_ms() >= until_ms:
                    break
                await self._clock.sleep_ms(RETRY_MS)
        raise lost

    @asynccontextmanager
    async def way(self, view: Published) -> AsyncIterator[Way]:
        """Let the block work for as long as a question may take, with the wait for its turn; then continue
        after it. Raise GroupsUnavailable."""
        brokers = brokers_of(view)
        had_its_turn = False
        with self._clock.timeout_ms(QUESTION_MS_MAX):
            async with self._turns:
                try:
                    tls = await anyio.to_thread.run_sync(self._tls.context) if speaks_tls(view) else None
                except TlsFilesInvalid as error:
                    raise GroupsUnavailable(str(error)) from error
                had_its_turn = True
                yield Way(self._clock, tls, brokers)
        if not had_its_turn:
            raise GroupsUnavailable(
                f"{QUESTIONS_AT_ONCE_MAX} other questions to the cluster were not answered"
            )


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a cluster's nodes, for one question. brokers: in the order in which they are asked."""

    clock: ControllerClock
    tls: ssl.SSLContext | None
    brokers: Sequence[KafkaPeer]

    def connected(self, node: KafkaPeer) -> AbstractAsyncContextManager[KafkaConnection]:
        return connected(node, self.clock, self.tls)

    async def ask(self, node: KafkaPeer, api_key: ApiKey, fields: Mapping[str, object]) -> Any:
        """Raise NodeLost."""
        async with self.connected(node) as connection:
            return await connection.ask(api_key, VERSIONS[api_key], fields)

    async def coordinator_of(self, key: str, key_type: int) -> KafkaPeer:
        """Return the coordinator that the first broker names which answers. Raise NodeLost, KafkaRefusal."""
        lost: NodeLost | None = None
        named = {"key": key, "key_type": key_type}
        for broker in self.brokers:
            lost = NodeLost(broker, "it is silent")
            try:
                with self.clock.timeout_ms(FIND_MS_MAX):
                    answer = await self.ask(broker, ApiKey.FIND_COORDINATOR, named)
                    check(answer.error_code)
                    return KafkaPeer(answer.node_id, answer.host, answer.port)
            except NodeLost as error:
                lost = error
        assert lost is not None, "there is a broker"
        raise lost


# --- whom to ask --------------------------------------------------------------------------------------------


def coordinators_of(view: Published) -> list[KafkaPeer]:
    """Return the coordinators that answer for groups. Raise GroupsUnavailable without one."""
    found = [
        KafkaPeer(coordinator_id, one.host, one.port)
        for coordinator_id, one in sorted(view.image.coordinators.items())
        if one.is_active
    ]
    if not found:
        raise GroupsUnavailable(f"no coordinator of {view.cluster!r} is admitted and live")
    return found


def brokers_of(view: Published) -> list[KafkaPeer]:
    """Return the brokers at their inter-broker addresses, live ones first. Raise GroupsUnavailable without
    one."""
    admitted = [broker for _, broker in sorted(view.image.brokers.items()) if broker.admitted]
    if not admitted:
        raise GroupsUnavailable(f"{view.cluster!r} has no broker that could name a coordinator")
    return [
        KafkaPeer(one.broker_id, one.host, one.port)
        for one in sorted(admitted, key=lambda broker: broker.fenced)
    ]


def speaks_tls(view: Published) -> bool:
    """Return whether the cluster's inter-broker listeners have TLS."""
    return any(
        (told.host, told.port, told.protocol) == (broker.host, broker.port, "SSL")
        for broker in view.image.brokers.values()
        if broker.admitted
        for told in broker.listeners.values()
    )


def by_leader(view: Published, places: Iterable[Place]) -> list[tuple[KafkaPeer, list[Place]]]:
    """Return the places that each leader leads; those without a leader are left out."""
    image = view.image
    found: dict[int, list[Place]] = {}
    for place in places:
        topic = image.topic_named(place[0])
        state = None if topic is None else image.partitions.get((topic.topic_id, place[1]))
        if state is not None and state.leader in image.brokers:
            found.setdefault(state.leader, []).append(place)
    return [
        (KafkaPeer(leader, image.brokers[leader].host, image.brokers[leader].port), led)
        for leader, led in found.items()
    ]


async def at_once(calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
    limiter = anyio.Semaphore(LEADERS_AT_ONCE_MAX)

    async def one(call: Callable[[], Awaitable[None]]) -> None:
        async with limiter:
            await call()

    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(one, call)
