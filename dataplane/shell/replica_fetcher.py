"""Followers' side of replication: one connection and one task per leader broker.

A partition is never dropped for an error: it rests and comes back (L6, every follower is fetched for).

A learner, being added and not in sync, may be throttled: it has a position only while it holds a grant of
bytes (core/throttle.py), and waits for its turn without one, outside the session. Other replicas
cost one test per answered partition: whether it is a learner.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import trio

from dataplane.shell.config import BrokerConfig
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetch_encoder import FetchEncoder
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.leader_fetcher import FetcherParts, LeaderFetcher
from dataplane.shell.learner_turns import LearnerTurns
from dataplane.shell.metrics import BrokerCounters
from springtide.contract.partition_state import PartitionKey
from springtide.node.clock import Clock, sleep_to_beat
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net, Poller

SILENCE_LOOK_MS = 1_000


class ReplicaFetchers:
    """All fetchers of a broker: what effect_runner.ReplicaFetching asks for."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        effects: EffectRunner,
        view: ClusterView,
        net: Net,
        poller: Poller,
        clock: Clock,
        rng: random.Random,
        config: BrokerConfig,
        counters: BrokerCounters,
    ) -> None:
        encoder = FetchEncoder(broker_id=broker_id, broker_epoch=broker_epoch, config=config)
        self.turns = LearnerTurns(
            broker_id=broker_id,
            view=view,
            clock=clock,
            grant_bytes_max=config.number("replica.fetch.max.bytes"),
            fetch_wait_ms=encoder.wait_ms,
            on_turn=self._on_turn,
        )
        self._parts = FetcherParts(
            effects=effects,
            view=view,
            net=net,
            poller=poller,
            clock=clock,
            rng=rng,
            counters=counters,
            turns=self.turns,
            encoder=encoder,
            silence_ms_max=config.number("replica.socket.timeout.ms"),
        )
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._leader_of: dict[PartitionKey, int] = {}
        self._nursery: trio.Nursery | None = None
        self._is_stopped = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch what `follow` names, until cancelled. The server drives the poller."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            nursery.start_soon(self._watch)
            nursery.start_soon(self.turns.run)
            await trio.sleep_forever()

    def stop(self) -> None:
        """Fetch nothing any more (controlled shutdown)."""
        self._is_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers = {}

    async def _watch(self) -> None:
        """Leaders that take a request and never answer: one look a second instead of a timer a request."""
        while True:
            await sleep_to_beat(self._parts.clock, SILENCE_LOOK_MS)
            now_ms = self._parts.clock.mono_ms()
            for fetcher in list(self._fetchers.values()):
                fetcher.check_silence(now_ms)

    def follow(self, hosted: HostedPartition, *, leader_id: int, leader_epoch: int) -> None:
        """Idempotent: what runs already in this leader epoch is left alone."""
        del leader_epoch  # the replica states it with each position
        if self._is_stopped:
            return
        key = hosted.key
        earlier = self._leader_of.get(key)
        if earlier is not None and earlier != leader_id:
            self.unfollow(key)
        self._leader_of[key] = leader_id
        self.turns.classify(hosted)
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            assert self._nursery is not None, "run() comes first"
            fetcher = self._fetchers[leader_id] = LeaderFetcher(self._parts, leader_id)
            self._nursery.start_soon(fetcher.run)
        fetcher.follow(hosted)
        self.turns.give()

    def unfollow(self, key: PartitionKey) -> None:
        leader_id = self._leader_of.pop(key, None)
        self.turns.forget(key)
        if leader_id is not None and (fetcher := self._fetchers.get(leader_id)) is not None:
            fetcher.unfollow(key)

    def on_room_changed(self) -> None:
        """Ask each replica again what it fetches: records, or for want of room none."""
        for fetcher in self._fetchers.values():
            fetcher.ask_all_again()

    # Throttled learners

    def on_rates_changed(self) -> None:
        self.turns.on_rates_changed()

    def _on_turn(self, key: PartitionKey) -> None:
        fetcher = self._fetchers.get(self._leader_of[key])
        if fetcher is not None:
            fetcher.on_turn(key)

    def back_off(self, key: PartitionKey, delay_ms: int) -> None:
        leader_id = self._leader_of.get(key)
        if leader_id is None or self._nursery is None:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is not None:
            rest_ms = fetcher.pause(key, delay_ms)
            self._nursery.start_soon(self._resume_later, fetcher, key, rest_ms)

    async def _resume_later(self, fetcher: LeaderFetcher, key: PartitionKey, rest_ms: int) -> None:
        await self._parts.clock.sleep_ms(rest_ms * self._parts.rng.uniform(0.75, 1.25))
        fetcher.resume(key)
        self.turns.give()

    def on_broker_changed(self, broker_id: int) -> None:
        """A leader came back, perhaps elsewhere: don't wait out the pause."""
        fetcher = self._fetchers.get(broker_id)
        if fetcher is not None:
            fetcher.on_endpoint_changed(self._parts.view.brokers.get(broker_id))
