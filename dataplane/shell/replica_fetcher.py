"""Followers' side of replication: one connection and one task per leader broker.

What is fetched, and when a throttled learner's turn comes, is decided in core/following.py and
core/learner_turns.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import trio

from dataplane.core.following import Following
from dataplane.core.learner_turns import LearnerTurns
from dataplane.shell.config import BrokerConfig
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetch_encoder import FetchEncoder
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.leader_fetcher import FetcherParts, LeaderFetcher
from dataplane.shell.metrics import BrokerCounters
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.contract.throttles import FOLLOWER_RATE, effective_rate
from springtide.node.clock import Clock, sleep_to_beat
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net, Poller
from springtide.wire.apis import REPLICA_FETCH_VERSIONS

SILENCE_LOOK_MS = 1_000


class ReplicaFetchers:
    """All fetchers of a broker: what effect_runner.ReplicaFetching asks for."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], BrokerEpoch],
        effects: EffectRunner,
        view: ClusterView,
        net: Net,
        poller: Poller,
        clock: Clock,
        rng: random.Random,
        config: BrokerConfig,
        counters: BrokerCounters,
        versions: range = REPLICA_FETCH_VERSIONS,
    ) -> None:
        encoder = FetchEncoder(broker_id=broker_id, broker_epoch=broker_epoch, config=config)
        self._broker_id = broker_id
        self._following: Following[HostedPartition, LeaderFetcher] = Following(
            broker_id=broker_id,
            grant_bytes_max=config.number("replica.fetch.max.bytes"),
            fetch_wait_ms=encoder.wait_ms,
            new_leader=self._new_fetcher,
            on_waiting=self._on_waiting,
        )
        self._parts = FetcherParts(
            effects=effects,
            view=view,
            net=net,
            poller=poller,
            clock=clock,
            rng=rng,
            counters=counters,
            encoder=encoder,
            silence_ms_max=config.number("replica.socket.timeout.ms"),
            versions=versions,
        )
        self._learner_waits = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._is_stopped = False

    @property
    def not_understood(self) -> Mapping[int, str]:
        """Why leaders can't be followed that are of another release."""
        return self._parts.not_understood

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch what `follow` names, until cancelled. The server drives the poller."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            nursery.start_soon(self._watch)
            nursery.start_soon(self._give_turns)
            await trio.sleep_forever()

    def stop(self) -> None:
        """Fetch nothing any more (controlled shutdown)."""
        self._is_stopped = True
        for fetcher in self._following.leaders.values():
            fetcher.stop()
        self._following.leaders.clear()

    async def _watch(self) -> None:
        """Leaders that take a request and never answer: one look a second instead of a timer a request."""
        while True:
            await sleep_to_beat(self._parts.clock, SILENCE_LOOK_MS)
            now_ms = self._parts.clock.mono_ms()
            for fetcher in list(self._following.leaders.values()):
                fetcher.check_silence(now_ms)

    def follow(self, hosted: HostedPartition, *, leader_id: int, leader_epoch: LeaderEpoch) -> None:
        """Idempotent: what runs already in this leader epoch is left alone."""
        del leader_epoch  # the replica states it with each position
        if self._is_stopped:
            return
        self._following.follow(hosted, leader_id, self._parts.clock.mono_ms())

    def _new_fetcher(self, leader_id: int) -> LeaderFetcher:
        assert self._nursery is not None, "run() comes first"
        fetcher = LeaderFetcher(self._parts, leader_id, self.turns)
        self._nursery.start_soon(fetcher.run)
        return fetcher

    def unfollow(self, key: PartitionKey) -> None:
        self._following.unfollow(key, self._parts.clock.mono_ms())

    def back_off(self, key: PartitionKey, delay_ms: int) -> None:
        fetcher = self._following.leader_of(key)
        if fetcher is not None and self._nursery is not None:
            rest_ms = fetcher.rest(key, delay_ms)
            self._nursery.start_soon(self._end_rest, fetcher, key, rest_ms)

    async def _end_rest(self, fetcher: LeaderFetcher, key: PartitionKey, rest_ms: int) -> None:
        await self._parts.clock.sleep_ms(rest_ms * self._parts.rng.uniform(0.75, 1.25))
        self._following.end_rest(fetcher, key, self._parts.clock.mono_ms())

    def on_room_changed(self) -> None:
        self._following.on_room_changed(self._parts.clock.mono_ms())

    # Throttled learners

    @property
    def turns(self) -> LearnerTurns:
        return self._following.turns

    def on_rates_changed(self) -> None:
        view = self._parts.view
        me = view.brokers.get(self._broker_id)
        rate = effective_rate(FOLLOWER_RATE, {} if me is None else me.configs, view.cluster_configs)
        self.turns.set_rate(rate, self._parts.clock.mono_ms())

    def _on_waiting(self) -> None:
        self._learner_waits.set()

    async def _give_turns(self) -> None:
        clock = self._parts.clock
        while True:
            look_ms = self.turns.look_ms(clock.mono_ms())
            if look_ms is None:
                self._learner_waits = trio.Event()
                await self._learner_waits.wait()
            else:
                await clock.sleep_ms(look_ms)
                self.turns.give(clock.mono_ms())

    # Leaders

    def on_broker_changed(self, broker_id: int) -> None:
        """A leader came back, perhaps elsewhere: don't wait out the pause."""
        fetcher = self._following.leaders.get(broker_id)
        if fetcher is not None:
            fetcher.on_endpoint_changed(self._parts.view.brokers.get(broker_id))
