"""Consumer groups of a run: members that join, sync, send heartbeats and commit, over real connections.

A member is as honest as Kafka's own clients: it gives its partitions up before it joins again, begins where
its group has committed, and commits what it has read since. It reads nothing, for of a group only commits
are judged: its position moves by itself. A commit without an answer may still arrive, behind a later one on
another connection. So that no commit of a member overtakes another, a process ends after such a one, and the
next one joins without its member id; a client without a membership goes on with another group.

Each process keeps a diary, which tests/checker/group_judge.py judges.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from springtide.wire.apis import ApiKey
from tests.checker.group_diary import UNTOLD, Assigned, Began, Committed, Entry, Refused, Revoked
from tests.checker.group_judge import Life, judge_acts
from tests.fullstack.failure import Failure
from tests.fullstack.kafka import ConnectionLost, KafkaConnection

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

SESSION_MS = 4_000
REBALANCE_MS = 3_000
"""Less than a client waits for an answer (kafka.ANSWER_MS)."""
TURN_MS = (50, 500)
RETRY_MS = (20, 250)
READ_MAX = 9
COMMITS = 0.6
"""Share of a member's turns; in the others it sends a heartbeat."""
RESTARTS = 0.02
LEAVES = 0.4
GROUP = "billing"
MEMBERS = ("a", "b", "s")
STATIC = frozenset("s")
PLAIN = ("audit", "report")
WHOLE_MS_MAX = 40_000
LOOKS_MAX = 200
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
LOOK_ELSEWHERE = frozenset({"not_coordinator", "coordinator_not_available"})
TRY_AGAIN = LOOK_ELSEWHERE | {"coordinator_load_in_progress"}

MOMENTS = (
    "commit answered",
    "commit unanswered",
    "commit refused: coordinator_not_available",
    "commit refused: not_coordinator",
    "told coordinator_load_in_progress",
    "told not_coordinator",
    "told unknown_member_id",
    "told rebalance_in_progress",
    "assigned in a later generation",
    "assigned again without a rebalance",
    "left",
)
"""What the groups of a sweep must come to, or its green means little."""


class Road:
    """One client's way to the coordinator of its group."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._turn = 0
        self._connection: KafkaConnection | None = None

    async def connection(self, group: str) -> KafkaConnection:
        """Return a connection to the coordinator. Raise ConnectionLost if none is to be had now."""
        if self._connection is None or self._connection.is_lost:
            self._connection = await self._open(group)
        return self._connection

    async def call(self, group: str, api: ApiKey, fields: dict[str, object]) -> Any:
        """Raise ConnectionLost."""
        return await (await self.connection(group)).call(api, fields)

    def forget(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _open(self, group: str) -> KafkaConnection:
        host = self._cluster.clients
        address = host.bootstrap[self._turn % len(host.bootstrap)]
        self._turn += 1
        broker = await KafkaConnection.open(host.life, host.net, address, self._name)
        try:
            answer = await broker.call(ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": (group,)})
        finally:
            broker.close()
        (found,) = answer.coordinators
        if found.error_code.name.lower() != "none":
            raise ConnectionLost
        return await KafkaConnection.open(host.life, host.net, (found.host, found.port), self._name)


class _Client:
    """lives: the diaries of its processes that have ended."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.lives: list[Life] = []
        self.moments: Counter[str] = Counter()
        self.is_stopped = False
        self._cluster = cluster
        self._random: Random = cluster.world.random("group", name)
        self._road = Road(cluster, name)
        self._diary: list[Entry] = []
        self._positions: dict[int, int] = {}

    @property
    def owns(self) -> bool:
        """Return whether it has something to commit."""
        return bool(self._positions)

    @property
    def answered_ns(self) -> int:
        """Return when the last commit was answered; -1: none of this process's."""
        return max((entry.at_ns for entry in self._diary if isinstance(entry, Committed)), default=-1)

    @property
    def _now_ns(self) -> int:
        return self._cluster.world.now_ns

    def note(self, entry: Entry) -> None:
        self._diary.append(entry)
        self._cluster.world.trace(f"{self.name} {entry}")

    def end_life(self) -> None:
        self._road.forget()
        self.lives.append(Life(f"{self.name}-{len(self.lives)}", self._diary, self._now_ns))
        self._diary, self._positions = [], {}

    async def pause(self, range_ms: tuple[int, int]) -> None:
        await self._cluster.clients.life.clock.sleep_ms(self._random.uniform(*range_ms))

    def heed(self, error: str) -> None:
        """Take an error that says nothing about a membership in."""
        self.moments[f"told {error}"] += 1
        if error in LOOK_ELSEWHERE:
            self._road.forget()

    def read_on(self) -> dict[int, int]:
        for partition in self._positions:
            self._positions[partition] += self._random.randint(0, READ_MAX)
        return dict(self._positions)

    async def begin(self, group: str, partitions: tuple[int, ...]) -> str:
        """Ask where to begin. Return the error, "none" at last. Raise ConnectionLost."""
        asked_ns = self._now_ns
        topic = {"name": self._cluster.topic, "partition_indexes": partitions}
        asked = {"groups": ({"group_id": group, "topics": (topic,)},), "require_stable": True}
        (found,) = (await self._road.call(group, ApiKey.OFFSET_FETCH, asked)).groups
        if found.error_code.name.lower() == "none":
            for told in found.topics[0].partitions:
                assert told.error_code.name.lower() == "none", told
                self.note(Began(asked_ns, self._now_ns, told.partition_index, told.committed_offset))
                self._positions[told.partition_index] = max(0, told.committed_offset)
        name: str = found.error_code.name.lower()
        return name

    async def commit(self, group: str, membership: dict[str, object], generation: int = UNTOLD) -> str:
        """Commit what was read. Return the error; "" without an answer, which may mean anything."""
        connection = await self._road.connection(group)
        offsets = self.read_on()
        entries = [
            {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            for partition, offset in offsets.items()
        ]
        topics = ({"name": self._cluster.topic, "partitions": entries},)
        asked_ns = self._now_ns
        fields = {"group_id": group, "generation_id_or_member_epoch": generation, "topics": topics}
        try:
            answer = await connection.call(ApiKey.OFFSET_COMMIT, {**fields, **membership})
        except ConnectionLost:
            self.moments["commit unanswered"] += 1
            self.note(Refused(self._now_ns, "no answer"))
            return ""
        (error,) = {told.error_code.name.lower() for told in answer.topics[0].partitions}
        if error == "none":
            self.moments["commit answered"] += 1
            self.note(Committed(asked_ns, self._now_ns, offsets, generation))
        else:
            self.moments[f"commit refused: {error}"] += 1
            self.note(Refused(self._now_ns, error))
        return str(error)


class PlainClient(_Client):
    """Commits without a membership, to a group of its own in each of its lives."""

    @property
    def group(self) -> str:
        return f"{self.name}-{len(self.lives)}"

    async def run(self) -> None:
        while not self.is_stopped:
            await self.pause(TURN_MS)
            try:
                error = await self._act()
            except ConnectionLost:
                await self.pause(RETRY_MS)
                continue
            if not error:
                self.end_life()
            elif error != "none":
                assert error in TRY_AGAIN, error
                self.heed(error)
                await self.pause(RETRY_MS)

    async def _act(self) -> str:
        if not self._positions or self._random.random() > COMMITS:
            return await self.begin(self.group, (0,))
        return await self.commit(self.group, {"member_id": ""})


class Member(_Client):
    """Of GROUP. generation: UNTOLD while it has none."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self.generation = UNTOLD
        self._instance_id = f"instance-{name}" if name in STATIC else None
        self._member_id = ""
        self._last_generation = UNTOLD

    async def run(self) -> None:
        while not self.is_stopped:
            try:
                if self.generation == UNTOLD:
                    await self._join()
                else:
                    await self.pause(TURN_MS)
                    await self._turn()
            except ConnectionLost:
                await self.pause(RETRY_MS)

    @property
    def _membership(self) -> dict[str, object]:
        return {"member_id": self._member_id, "group_instance_id": self._instance_id}

    # A generation

    async def _join(self) -> None:
        fields = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": ({"name": PROTOCOL, "metadata": b""},),
            **self._membership,
        }
        answer = await self._road.call(GROUP, ApiKey.JOIN_GROUP, fields)
        error = answer.error_code.name.lower()
        if error == "member_id_required":
            self._member_id = answer.member_id
        elif error != "none":
            await self._on_error(error)
        else:
            self._member_id = answer.member_id
            await self._sync(answer)

    async def _sync(self, joined: Any) -> None:
        shares: dict[str, bytes] = {}
        if joined.leader == self._member_id and not joined.skip_assignment:
            members = sorted(member.member_id for member in joined.members)
            count = self._cluster.options.partitions
            shares = {
                member: bytes(range(place, count, len(members))) for place, member in enumerate(members)
            }
        fields = {
            "group_id": GROUP,
            "generation_id": joined.generation_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": PROTOCOL,
            "assignments": [{"member_id": each, "assignment": own} for each, own in shares.items()],
            **self._membership,
        }
        answer = await self._road.call(GROUP, ApiKey.SYNC_GROUP, fields)
        if answer.error_code.name.lower() != "none":
            await self._on_error(answer.error_code.name.lower())
            return
        self.generation = joined.generation_id
        if self._last_generation != UNTOLD:
            is_same = self.generation == self._last_generation
            self.moments[
                "assigned again without a rebalance" if is_same else "assigned in a later generation"
            ] += 1
        self._last_generation = self.generation
        partitions = tuple(answer.assignment)
        self.note(Assigned(self._now_ns, partitions, self.generation))
        while partitions and self.generation != UNTOLD and partitions[0] not in self._positions:
            try:
                error = await self.begin(GROUP, partitions)
            except ConnectionLost:
                error = "coordinator_not_available"
            if error != "none":
                await self._on_error(error)

    async def _turn(self) -> None:
        drawn = self._random.random()
        if drawn < RESTARTS:
            await self._restart()
        elif drawn < COMMITS and self._positions:
            error = await self.commit(GROUP, self._membership, self.generation)
            if not error:
                self._die()
            elif error != "none":
                await self._on_error(error)
        else:
            await self._beat()

    async def _beat(self) -> None:
        fields = {"group_id": GROUP, "generation_id": self.generation, **self._membership}
        answer = await self._road.call(GROUP, ApiKey.HEARTBEAT, fields)
        if answer.error_code.name.lower() != "none":
            await self._on_error(answer.error_code.name.lower())

    async def _on_error(self, error: str) -> None:
        self.heed(error)
        match error:
            case "rebalance_in_progress":
                self._give_up()
            case "illegal_generation":
                self._give_up()
            case "unknown_member_id" | "fenced_instance_id":
                self._give_up()
                self._member_id = ""
            case _:
                assert error in TRY_AGAIN, error
        await self.pause(RETRY_MS)

    def _give_up(self) -> None:
        if self.generation != UNTOLD:
            self.note(Revoked(self._now_ns, tuple(self._positions)))
        self.generation = UNTOLD
        self._positions = {}

    # A process

    async def _restart(self) -> None:
        """The process ends and begins anew; it may take its leave, as a dynamic member does."""
        if self._instance_id is None and self._random.random() < LEAVES:
            await self._road.call(
                GROUP, ApiKey.LEAVE_GROUP, {"group_id": GROUP, "members": (self._membership,)}
            )
            self.moments["left"] += 1
        self._die()

    def _die(self) -> None:
        self.end_life()
        self.generation, self._member_id = UNTOLD, ""


class LastLook(_Client):
    """Asks what a group has committed, until it is told."""

    async def look(self, group: str, partitions: tuple[int, ...]) -> Life:
        for _ in range(LOOKS_MAX):
            try:
                error = await self.begin(group, partitions)
            except ConnectionLost:
                error = "coordinator_not_available"
            if error == "none":
                self.end_life()
                return self.lives[0]
            self.heed(error)
            await self.pause(RETRY_MS)
        raise Failure(f"L1: group {group} does not tell what it has committed: {error}")


class Groups:
    """All clients of groups of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.members = [Member(cluster, name) for name in MEMBERS]
        self.plain = [PlainClient(cluster, name) for name in PLAIN]

    @property
    def _clients(self) -> list[Member | PlainClient]:
        return [*self.members, *self.plain]

    def start(self) -> None:
        for client in self._clients:
            self._cluster.spawn(client.run)

    @property
    def moments(self) -> Counter[str]:
        return sum((client.moments for client in self._clients), Counter())

    def missing(self, since_ns: int) -> str | None:
        """Return what the groups lack to be whole: all members have one generation, and commits are
        answered."""
        generations = {member.name: member.generation for member in self.members}
        if UNTOLD in generations.values() or len(set(generations.values())) != 1:
            return f"a generation of all: {generations}"
        owners = [client for client in self._clients if client.owns]
        late = [client.name for client in owners if client.answered_ns < since_ns]
        return f"answers to commits of {late}" if late else None

    async def finish(self) -> list[str]:
        """Wait until the groups are whole, stop them, look once more, and judge. Return what was wrong, a
        line each. Raise Failure."""
        world = self._cluster.world
        since_ns, due_ms = world.now_ns, world.now_ms + WHOLE_MS_MAX
        while (lacking := self.missing(since_ns)) is not None:
            if world.now_ms > due_ms:
                raise Failure(f"L1: {WHOLE_MS_MAX} ms after the faults ended groups lack {lacking}")
            await trio.sleep(0.02)
        for client in self._clients:
            client.is_stopped = True
            client.end_life()
        lives = {GROUP: [life for member in self.members for life in member.lives]}
        for client in self.plain:
            lives |= {f"{client.name}-{place}": [life] for place, life in enumerate(client.lives)}
        failures: list[str] = []
        for group, of_group in lives.items():
            partitions = range(self._cluster.options.partitions) if group == GROUP else (0,)
            last = await LastLook(self._cluster, f"last-{group}").look(group, tuple(partitions))
            failures += [f"group {group}: {wrong}" for wrong in judge_acts([*of_group, last]).failures]
        return failures
