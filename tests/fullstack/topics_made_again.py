"""Topics that are deleted and made again at once: over REST, by Kafka's calls, by a tool that reads back what
it did, or by a first use. Clients that know only the old topic go on writing, and its leader is slow, stands
still or is cut off (I39, acknowledged in the topic that there is).

The clients ask each broker, again and again, as those do whose metadata is old. What is acknowledged of a
write that began after the creation was answered must be there when the topic is read at the end: to the
checker it is a send like any other, and everything else is a send of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from springtide.contract.administration import FIRST_USE
from springtide.contract.partition_state import NO_LEADER, PartitionState
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.checker.history import NO_OFFSET, Function, Key, Operation, Outcome
from tests.checker.values import encode_value, make_value
from tests.fullstack.broker_node import PORT, BrokerNode
from tests.fullstack.families import register_in
from tests.fullstack.kafka import ConnectionLost, KafkaConnection
from tests.fullstack.operator import Operator, Refused
from tests.simulation.kinds_brokers import draw_ms
from tests.simulation.kinds_controllers import kill_controller
from tests.simulation.kinds_network import cut_pairs
from tests.simulation.kinds_pauses import stand_still
from tests.simulation.schedule import Arguments, Kind

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

TROUBLE_MS = ((50, 600), (2_000, 12_000))
SLOW_MS_MAX = 600
WRITE_MS, ASK_MS = 30, 60
OLD_RECORDS = 5
"""So many are in the old log before the deletion: what goes there would stand behind them."""
WRITE_AFTER_MS = 1_500
"""How long the topic that was made again is written to."""
TIMEOUT_MS = 2_000

KINDS: dict[str, Kind] = {}
_own = register_in(KINDS)


def _draw(cluster: Cluster, random: Random) -> Arguments | None:
    return {
        "way": random.choice(("rest", "kafka", "tool", "first use")),
        "trouble": random.choice(("none", "slow", "slow", "pause", "cut", "cut", "controller")),
        "followers": random.choice((1, 9, 9)),
        "after_ms": random.choice((0, 20, 300)),
        "for_ms": draw_ms(random, TROUBLE_MS),
    }


@_own(_draw, family="topics")
def make_again(
    cluster: Cluster, *, way: str, trouble: str, followers: int, after_ms: int, for_ms: int
) -> bool:
    """trouble: of the topic's leader and so many followers; "slow", "cut": they hear nothing of the
    controllers for a moment, or for long; "controller": the active one dies."""

    def strike(state: PartitionState) -> None:
        _trouble(cluster, state, trouble=trouble, followers=followers, after_ms=after_ms, for_ms=for_ms)

    cluster.remaker.begin(way, strike, after_ms)
    return True


def _trouble(
    cluster: Cluster, state: PartitionState, *, trouble: str, followers: int, after_ms: int, for_ms: int
) -> None:
    others = [b for b in (*state.isr, *state.replicas) if b != state.leader]
    names = [cluster.brokers[b].name for b in [state.leader, *dict.fromkeys(others)][: followers + 1]]
    controllers = [each.name for each in cluster.controllers]
    match trouble:
        case "slow" | "cut":
            pairs = [(c, name) for c in controllers for name in names]
            pairs += [(name, c) for c in controllers for name in names] if trouble == "cut" else []
            for_ms = min(for_ms, SLOW_MS_MAX) if trouble == "slow" else for_ms
            cut_pairs(cluster, pairs, for_ms)  # type: ignore[arg-type]
        case "pause":
            stand_still(cluster, nodes=names, for_ms=for_ms)
        case "controller":
            cluster.ongoing.later(after_ms + 5, partial(_kill, cluster, for_ms))


def _kill(cluster: Cluster, for_ms: int) -> None:
    active = cluster.active_controller()
    if active is not None:
        kill_controller(cluster, controller=active.name, for_ms=for_ms)


@dataclass(slots=True, eq=False)
class _Made:
    """created_ns: when the creation was answered, once it was."""

    topic: str
    created_ns: int | None = None
    is_over: bool = False

    @property
    def key(self) -> Key:
        return self.topic, 0


class Remaker:
    """waiting: how many topics are being made again. A topic each time."""

    def __init__(self, cluster: Cluster) -> None:
        self.waiting = 0
        self.topics: list[str] = []
        self._cluster = cluster
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def begin(self, way: str, trouble: Callable[[PartitionState], None], after_ms: int) -> None:
        self.waiting += 1
        made = _Made(f"again-{len(self.topics)}")
        self.topics.append(made.topic)
        self._cluster.spawn(self._carry_through, made, way, trouble, after_ms)

    async def _carry_through(
        self, made: _Made, way: str, trouble: Callable[[PartitionState], None], after_ms: int
    ) -> None:
        cluster = self._cluster
        sleep_ms = cluster.clients.life.clock.sleep_ms
        operator = Operator(cluster.clients, cluster.name, cluster.controller_urls, name=f"on-{made.topic}")
        over_rest = _OverRest(operator, cluster, made)
        desk: _Desk
        match way:
            case "tool":
                desk = _ByTool(cluster, made)
            case "first use":
                desk = _ByFirstUse(over_rest, cluster, made)
            case _:
                desk = over_rest if way == "rest" else _ByKafka(cluster, made)
        if await self._until(over_rest.create):
            writers = [_Writer(cluster, made, broker) for broker in cluster.brokers.values()]
            for writer in writers:
                cluster.spawn(writer.run)
            await self._until(lambda: _is_written(writers))
            state = _state_of(cluster, made.topic)
            if state is not None and state.leader != NO_LEADER and not self._is_stopped:
                trouble(state)
            await sleep_ms(after_ms)
            if await self._until(desk.delete) and await self._until(desk.create):
                made.created_ns = cluster.world.now_ns
                cluster.world.note(f"{made.topic} is made again")
                await sleep_ms(WRITE_AFTER_MS)
            made.is_over = True
            await self._until(lambda: _have_ended(writers), to_the_end=True)
        self.waiting -= 1

    async def _until(self, attempt: Callable[[], Awaitable[bool]], *, to_the_end: bool = False) -> bool:
        while to_the_end or not self._is_stopped:
            if await attempt():
                return True
            await self._cluster.clients.life.clock.sleep_ms(ASK_MS)
        return False

    def failures(self) -> list[str]:
        """A line for each topic whose final read lacks what was acknowledged after its creation's answer."""
        found: list[str] = []
        operations = self._cluster.clients.operations
        for topic in self.topics:
            of_topic = [one for one in operations if one.key == (topic, 0)]
            read = {value for one in of_topic if one.f is Function.POLL for _, value in one.items}
            acked = [
                value
                for one in of_topic
                if one.f is Function.SEND and one.type is Outcome.OK
                for _, value in one.items
            ]
            lost = [value for value in acked if value not in read]
            if lost:
                found.append(
                    f"I39: {len(lost)} of {len(acked)} records acknowledged after {topic} was made again are "
                    f"not in it"
                )
        return found


async def _is_written(writers: list[_Writer]) -> bool:
    return sum(writer.answered for writer in writers) >= OLD_RECORDS


async def _have_ended(writers: list[_Writer]) -> bool:
    return all(writer.has_ended for writer in writers)


def _state_of(cluster: Cluster, topic: str) -> PartitionState | None:
    published = cluster.published()
    states = () if published is None else published.image.partitions.values()
    return next((state for state in states if state.topic == topic), None)


class _Desk(Protocol):
    """Both return whether it was answered that it is done."""

    async def create(self) -> bool: ...

    async def delete(self) -> bool: ...


class _OverRest:
    def __init__(self, operator: Operator, cluster: Cluster, made: _Made) -> None:
        self._operator, self._cluster, self._topic = operator, cluster, made.topic

    async def create(self) -> bool:
        body = {
            "name": self._topic,
            "cluster": self._cluster.name,
            "partitions": 1,
            "replication_factor": self._cluster.options.replication_factor,
            "configs": self._cluster.options.topic_configs(),
        }
        return await self._ask("POST", "/topics", body)

    async def delete(self) -> bool:
        return await self._ask("DELETE", f"/clusters/{self._cluster.name}/topics/{self._topic}", None)

    async def let_first_use_create(self) -> bool:
        factor = str(self._cluster.options.replication_factor)
        configs = {FIRST_USE: "true", "default.replication.factor": factor}
        return await self._ask("POST", f"/clusters/{self._cluster.name}/configs:alter", {"configs": configs})

    async def _ask(self, method: str, path: str, body: Any) -> bool:
        try:
            await self._operator.ask(method, path, body)
        except Refused as refused:
            return method == "DELETE" and refused.code == "topic_not_found"
        return True


class _ByKafka:
    """Ask one broker after the other."""

    def __init__(self, cluster: Cluster, made: _Made) -> None:
        self._cluster, self._topic = cluster, made.topic
        self._turn = 0

    async def create(self) -> bool:
        options = self._cluster.options
        configs = tuple({"name": name, "value": value} for name, value in options.topic_configs().items())
        topic = {
            "name": self._topic,
            "num_partitions": 1,
            "replication_factor": options.replication_factor,
            "assignments": (),
            "configs": configs,
        }
        fields = {"topics": (topic,), "timeout_ms": TIMEOUT_MS, "validate_only": False}
        answer = await self._ask(ApiKey.CREATE_TOPICS, fields)
        return answer is not None and answer.topics[0].error_code == ErrorCode.NONE

    async def delete(self) -> bool:
        fields = {"topic_names": (self._topic,), "timeout_ms": TIMEOUT_MS}
        answer = await self._ask(ApiKey.DELETE_TOPICS, fields)
        return answer is not None and answer.responses[0].error_code in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    async def told(self, *, may_create: bool = False) -> Any:
        """Return what the next broker says of the topic; None: it does not answer."""
        topic = {"name": self._topic, "topic_id": None}
        answer = await self._ask(
            ApiKey.METADATA, {"topics": (topic,), "allow_auto_topic_creation": may_create}
        )
        return None if answer is None else answer.topics[0]

    async def _ask(self, api: ApiKey, fields: dict[str, object]) -> Any:
        """Return the answer; None: there was none."""
        clients, bootstrap = self._cluster.clients, self._cluster.clients.bootstrap
        self._turn += 1
        try:
            connection = await KafkaConnection.open(
                clients.life, clients.net, bootstrap[self._turn % len(bootstrap)], "operator"
            )
        except ConnectionLost:
            return None
        try:
            return await connection.call(api, fields)
        except ConnectionLost:
            return None
        finally:
            connection.close()


class _ByTool(_ByKafka):
    """As Terraform's providers do: a deletion is done when a broker knows the topic no more."""

    async def delete(self) -> bool:
        if not await super().delete():
            return False
        told = await self.told()
        return told is not None and told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _ByFirstUse(_ByKafka):
    """A client asks for the topic until a broker tells it one with a leader that is not the old one."""

    def __init__(self, over_rest: _OverRest, cluster: Cluster, made: _Made) -> None:
        super().__init__(cluster, made)
        self._over_rest = over_rest
        self._old_id: object = None

    async def delete(self) -> bool:
        if self._old_id is None:
            told = await self.told()
            if (
                told is None
                or told.error_code != ErrorCode.NONE
                or not await self._over_rest.let_first_use_create()
            ):
                return False
            self._old_id = told.topic_id
        return await super().delete()

    async def create(self) -> bool:
        told = await self.told(may_create=True)
        return (
            told is not None
            and told.error_code == ErrorCode.NONE
            and told.topic_id != self._old_id
            and told.partitions[0].error_code == ErrorCode.NONE
        )


class _Writer:
    """Writes to one broker, whatever it says, one record after the other."""

    def __init__(self, cluster: Cluster, made: _Made, broker: BrokerNode) -> None:
        self.answered = 0
        self.has_ended = False
        self._cluster, self._made = cluster, made
        self._address = broker.machine.address, PORT
        self._name = f"{made.topic}-by-{broker.broker_id}"
        self._written = 0

    async def run(self) -> None:
        clients = self._cluster.clients
        connection: KafkaConnection | None = None
        while not self._made.is_over:
            await clients.life.clock.sleep_ms(WRITE_MS)
            if connection is None or connection.is_lost:
                try:
                    connection = await KafkaConnection.open(
                        clients.life, clients.net, self._address, self._name
                    )
                except ConnectionLost:
                    continue
            await self._write(connection)
        if connection is not None:
            connection.close()
        self.has_ended = True

    async def _write(self, connection: KafkaConnection) -> None:
        world, key = self._cluster.world, self._made.key
        value = make_value(run="b", process=self._name, number=self._written, key=key, value_bytes=80)
        self._written += 1
        batch = encode_batch(
            [NewRecord(None, encode_value(value), self._cluster.clients.life.clock.wall_ms())]
        )
        data = {"name": self._made.topic, "partition_data": ({"index": 0, "records": batch},)}
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": (data,)}
        began_ns, offset, error = world.now_ns, NO_OFFSET, ""
        try:
            told = (await connection.call(ApiKey.PRODUCE, fields)).responses[0].partition_responses[0]
        except ConnectionLost:
            error = "no answer"
        else:
            error = "" if told.error_code == ErrorCode.NONE else told.error_code.name.lower()
            self.answered += not error
        is_after = self._made.created_ns is not None and began_ns >= self._made.created_ns
        if not error and is_after:
            offset = told.base_offset
        self._cluster.clients.record(
            Operation(
                process=self._name,
                f=Function.SEND,
                type=Outcome.INFO if offset == NO_OFFSET else Outcome.OK,
                t_invoke_ns=began_ns,
                t_return_ns=world.now_ns,
                key=key,
                items=((offset, value),),
                error=error or ("" if is_after else "acknowledged in a topic that may be gone"),
            )
        )
