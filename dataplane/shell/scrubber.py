"""Reads the logs' bytes again, slowly, and mends what has rotted (docs/replication.md 5.7, scrubbing).

A slice is read in a thread of its own, and then nothing is for as long as the configured rate asks for, and
at least nineteen times as long as the slice took: a scrub takes no more than a twentieth of one processor,
however small the batches are. Progress is written down now and then, so that a restart goes on within the
segment.

What is found rotten is read once more before it is believed. Then it is remembered beside the log, told to
the controller, and, once this replica has no seat, mended: the leader is asked for the very records as a
consumer would ask, so that nothing it knows of this follower changes. Only where it gives none, because it
does not know yet that they are committed, it is asked as by the follower.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import trio
from prometheus_client.metrics_core import Metric

from dataplane.core.effects import MendLog
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.log_port import LogChanged, LogError
from dataplane.core.results import LeaderAnswer
from dataplane.core.role import Offline
from dataplane.core.scrubbing import (
    MEND_BYTES_MAX,
    ScrubOrder,
    ScrubProgress,
    Unfit,
    committed_position,
    fitting_bytes,
    mend_position,
)
from dataplane.shell.config import BrokerConfig
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.partitions import PartitionTable
from dataplane.storage.health import ClosedLog, CorruptLog
from dataplane.storage.rot import CheckedSlice, ScrubPlace
from dataplane.storage.segment import Hole
from springtide.contract.epochs import NO_LEADER_EPOCH, BrokerEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net
from springtide.node.peer_requests import ask
from springtide.node.status import counter, gauge
from springtide.node.threads import Threads
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import REPLICA_FETCH_VERSION, ApiKey
from springtide.wire.client import WireClient
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import decode_fetch_response
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest

_log = logging.getLogger(__name__)

SLICE_BYTES = 256 * 1024
REST_FACTOR = 19
IDLE_MS_MAX = 5_000
CHECKPOINT_MS = 60_000
MEND_TIMEOUT_MS = 10_000
MEND_RETRY_MS = 2_000
_SLACK_BYTES = 128 * 1024 * 1024
"""An answer holds one batch at least, of any size that a leader accepted."""


class NotMended(Exception):
    """A hole that can't be mended now; it is tried again."""


class DeletedThere(NotMended):
    """The leader has deleted what is rotten here: its log begins at `log_start_offset`."""

    def __init__(self, log_start_offset: int) -> None:
        super().__init__(f"the leader's log begins at {log_start_offset}")
        self.log_start_offset = log_start_offset


class Scrubber:
    def __init__(
        self,
        *,
        table: PartitionTable,
        effects: EffectRunner,
        directory: DataDirectory,
        view: ClusterView,
        config: BrokerConfig,
        net: Net,
        clock: Clock,
        threads: Threads,
        broker_id: int,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._table = table
        self._effects = effects
        self._directory = directory
        self._view = view
        self._net = net
        self._clock = clock
        self._threads = threads
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._rate = config.number("log.scrub.bytes.per.second")
        interval_ms = config.number("log.scrub.interval.ms")
        self._order = ScrubOrder(interval_ms=interval_ms, progress={})
        self._idle_ms = min(IDLE_MS_MAX, interval_ms)
        self._limiter = trio.CapacityLimiter(1)
        #: Where the running pass is, and the log's count of changes then: a place means nothing after a cut.
        self._place: tuple[PartitionKey, int, ScrubPlace] | None = None
        #: Where a reader met damage, and the log's count of changes then.
        self._suspects: dict[PartitionKey, tuple[int, ScrubPlace]] = {}
        self._to_mend: dict[PartitionKey, MendLog] = {}
        self._due: deque[PartitionKey] = deque()
        #: Rotten as of late.
        self._rotten: set[PartitionKey] = set()
        self._wake_scrub = trio.Event()
        self._wake_mend = trio.Event()
        self._scope = trio.CancelScope()
        self._saved_ms = clock.mono_ms()
        self.bytes_read = 0
        self.passes = 0
        self.findings = 0
        self.bytes_mended = 0

    def stop(self) -> None:
        """Touch the logs no more: the clean shutdown closes them."""
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            self._order.progress = await self._threads.run(
                lambda: decode_progress(self._directory.read_scrub_progress())
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._scrub)
                nursery.start_soon(self._mend_all)

    # What replicas ask for (effect_runner.Scrubbing)

    def check_soon(self, hosted: HostedPartition, offset: int) -> None:
        log = hosted.log
        if self._suspects.get(hosted.key, (-1,))[0] != log.changes:
            self._suspects[hosted.key] = (log.changes, log.holes.place_near(offset))
        self._wake_scrub.set()

    def mend(self, hosted: HostedPartition, effect: MendLog) -> None:
        self._to_mend[hosted.key] = effect
        self._rotten.add(hosted.key)
        self._wake_mend.set()

    # Reading

    async def _scrub(self) -> None:
        while True:
            started_us = self._clock.mono_us()
            size_bytes = await self._read_next()
            self._forget_what_was_deleted()
            if self._clock.mono_ms() - self._saved_ms >= CHECKPOINT_MS:
                await self._save()
            if size_bytes is None:
                self._wake_scrub = trio.Event()
                with self._clock.timeout_ms(self._idle_ms):
                    await self._wake_scrub.wait()
                continue
            took_ms = (self._clock.mono_us() - started_us) / 1_000
            rate_ms = size_bytes * 1_000 / self._rate if self._rate else 0.0
            await self._clock.sleep_ms(max(rate_ms, took_ms * REST_FACTOR))

    async def _read_next(self) -> int | None:
        """Read one slice and return its bytes, or None if there is nothing to read now."""
        while self._suspects:
            key, (suspect_changes, suspect) = self._suspects.popitem()
            hosted = self._table.get(*key)
            if (
                hosted is None
                or isinstance(hosted.replica.role, Offline)
                or hosted.log.changes != suspect_changes
            ):
                continue
            checked = await self._check(hosted, suspect)
            following = None if checked is None or checked.hole is not None else checked.place
            if following is not None and following.base_offset == suspect.base_offset:
                # On to the end of the segment, at no rate, for a reader waits.
                self._suspects.setdefault(key, (suspect_changes, following))
            return 0
        if not self._rate:
            return None
        hosted_or_none = self._next_log()
        if hosted_or_none is None:
            return None
        hosted, key, changes = hosted_or_none, hosted_or_none.key, hosted_or_none.log.changes
        at = self._order.begin(key, self._clock.wall_ms())
        place = ScrubPlace(at.base_offset, 0, at.base_offset)
        if self._place is not None and self._place[:2] == (key, changes):
            place = self._place[2]
        checked = await self._check(hosted, place)
        self._place = None
        if checked is None:
            return 0
        if checked.place is None:
            self._order.on_pass_over(key)
            self._due.popleft()
            self.passes += 1
        else:
            self._place = (key, changes, checked.place)
            at.base_offset = checked.place.base_offset
        return checked.size_bytes

    def _next_log(self) -> HostedPartition | None:
        if not self._due:
            keys = [hosted.key for hosted in self._table]
            self._due.extend(self._order.due(keys, self._clock.wall_ms()))
            # What an earlier process found is told with the first state, and may be deleted under a leader.
            self._rotten.update(hosted.key for hosted in self._table if hosted.log.rotten)
        while self._due:
            hosted = self._table.get(*self._due[0])
            if hosted is not None and not isinstance(hosted.replica.role, Offline):
                return hosted
            self._due.popleft()
        return None

    async def _check(self, hosted: HostedPartition, place: ScrubPlace) -> CheckedSlice | None:
        """Read a slice; what is bad twice is rotten. None: the log was changed under it, or is over."""
        end_offset = hosted.replica.scrub_end
        known = [(hole.base_offset, hole.position) for hole in hosted.log.holes.all]
        read = partial(hosted.log.holes.check, end_offset=end_offset, bytes_max=SLICE_BYTES)
        try:
            checked = await self._threads.run(partial(read, place), limiter=self._limiter)
            self.bytes_read += checked.size_bytes
            hole = checked.hole
            if hole is not None and (hole.base_offset, hole.position) not in known:
                again = ScrubPlace(hole.base_offset, hole.position, hole.first_offset)
                if (await self._threads.run(partial(read, again), limiter=self._limiter)).hole is None:
                    _log.warning(
                        "read_error_passed topic=%s partition=%d cause=%s",
                        hosted.topic,
                        hosted.partition,
                        hole.reason,
                    )
                else:
                    self._on_hole(hosted, hole)
        except (LogChanged, ClosedLog):
            return None
        except CorruptLog as error:
            _log.error("log_failed topic=%s partition=%d cause=%s", hosted.topic, hosted.partition, error)
            self._effects.run_alone(hosted, hosted.replica.go_offline(str(error)))
            return None
        except LogError as error:
            self._directory.on_storage_error(str(error))
            return None
        return checked

    def _on_hole(self, hosted: HostedPartition, hole: Hole) -> None:
        if self._table.get(*hosted.key) is not hosted:
            return
        hosted.log.holes.note(hole, log_start_offset=hosted.log.log_start_offset)
        if all(found.first_offset != hole.first_offset for found in hosted.log.rotten):
            return  # It lies below the log's start, in a file that has not gone yet.
        self.findings += 1
        _log.error("log_rotten topic=%s partition=%d cause=%s", hosted.topic, hosted.partition, hole.reason)
        self._rotten.add(hosted.key)
        self._effects.run_alone(hosted, hosted.replica.on_rotten())

    def _forget_what_was_deleted(self) -> None:
        """Rot may go with what retention or a truncation takes away."""
        for key in list(self._rotten):
            hosted_or_none = self._table.get(*key)
            if hosted_or_none is None or not hosted_or_none.log.rotten:
                self._rotten.discard(key)
            if hosted_or_none is not None and not hosted_or_none.log.rotten:
                self._effects.run_alone(hosted_or_none, hosted_or_none.replica.on_mended())

    async def _save(self) -> None:
        self._saved_ms = self._clock.mono_ms()
        encoded = encode_progress(self._order.progress)
        try:
            await self._threads.run(partial(self._directory.write_scrub_progress, encoded))
        except (LogError, OSError) as error:
            self._directory.on_storage_error(str(error))

    # Mending

    async def _mend_all(self) -> None:
        while True:
            while self._to_mend:
                key, effect = self._to_mend.popitem()
                hosted = self._table.get(*key)
                if hosted is not None:
                    await self._mend_one(hosted, effect)
            self._wake_mend = trio.Event()
            await self._wake_mend.wait()

    async def _mend_one(self, hosted: HostedPartition, effect: MendLog) -> None:
        try:
            while hosted.log.rotten and _is_asked_for(hosted, effect):
                await self._mend_piece(hosted, hosted.log.holes.all[0], effect)
        except DeletedThere as deleted:
            follower = hosted.replica.following
            if follower is not None:
                self._effects.run_alone(hosted, follower.on_deleted_at_leader(deleted.log_start_offset))
            if hosted.log.rotten:
                await self._clock.sleep_ms(MEND_RETRY_MS)
        except (NotMended, Unfit, OSError, FrameError, MalformedRequest, LogChanged, ClosedLog) as error:
            _log.warning(
                "log_not_mended_yet topic=%s partition=%d cause=%s", hosted.topic, hosted.partition, error
            )
            await self._clock.sleep_ms(MEND_RETRY_MS)
        except LogError as error:
            self._directory.on_storage_error(str(error))
            return
        if self._table.get(*hosted.key) is hosted:
            if not hosted.log.rotten:
                self._rotten.discard(hosted.key)
            self._effects.run_alone(hosted, hosted.replica.on_mended())  # asks again for what is left

    async def _mend_piece(self, hosted: HostedPartition, hole: Hole, effect: MendLog) -> None:
        # As a consumer, which changes nothing that the leader knows.
        position = FetchPosition(hole.first_offset, NO_LEADER_EPOCH, effect.leader_epoch, -1, MEND_BYTES_MAX)
        fetched = await self._fetch(hosted, position, effect)
        try:
            size_bytes, next_offset = _fitting(hosted, hole, fetched)
        except Unfit:
            # Beyond what the leader knows to be committed, or where it has been compacted: as its follower.
            position = mend_position(hosted.log, hole.first_offset, effect.leader_epoch)
            fetched = await self._fetch(hosted, position, effect, as_replica=True)
            try:
                size_bytes, next_offset = _fitting(hosted, hole, fetched)
            except Unfit:
                await self._judge_unfit(hosted, fetched, effect)
                raise
        batches = bytes(fetched.records[:size_bytes])
        await self._threads.run(partial(hosted.log.holes.mend, hole, batches), limiter=self._limiter)
        hosted.log.holes.close(
            hole,
            size_bytes=size_bytes,
            next_offset=next_offset,
            log_start_offset=hosted.log.log_start_offset,
        )
        self.bytes_mended += size_bytes
        _log.info(
            "log_mended topic=%s partition=%d bytes=%d first_offset=%d next_offset=%d leader_id=%d",
            hosted.topic,
            hosted.partition,
            size_bytes,
            hole.first_offset,
            next_offset,
            effect.leader_id,
        )

    async def _judge_unfit(self, hosted: HostedPartition, fetched: LeaderAnswer, effect: MendLog) -> None:
        """Let the replica judge whether this leader's records will ever fit. Raises NotMended."""
        replica, leader_epoch = hosted.replica, effect.leader_epoch
        position = committed_position(hosted.log, replica.high_watermark, leader_epoch)
        at_high_watermark = await self._fetch(hosted, position, effect)
        follower = replica.following
        if follower is not None:
            effects = follower.on_unfit(
                fetched, at_high_watermark=at_high_watermark, leader_epoch=leader_epoch
            )
            self._effects.run_alone(hosted, effects)

    async def _fetch(
        self, hosted: HostedPartition, position: FetchPosition, effect: MendLog, *, as_replica: bool = False
    ) -> LeaderAnswer:
        """Return what the leader gives at a position. Raises NotMended."""
        endpoint = self._view.brokers.get(effect.leader_id)
        if endpoint is None:
            raise NotMended(f"the address of broker {effect.leader_id} is not known")
        partition = FetchPartition(
            topic_id_bytes(hosted.topic_id),
            hosted.partition,
            position.leader_epoch,
            position.fetch_offset,
            position.last_fetched_epoch,
            position.log_start_offset,
            position.max_bytes,
        )
        request = FetchRequest(max_bytes=MEND_BYTES_MAX, partitions=[partition])
        if as_replica:
            request = request._replace(replica_id=self._broker_id, broker_epoch=self._broker_epoch())
        body = encode_fetch_request(REPLICA_FETCH_VERSION, request)
        client: WireClient[None] = WireClient(
            f"broker-{self._broker_id}-scrub", answer_bytes_max=_SLACK_BYTES
        )
        with self._clock.timeout_ms(MEND_TIMEOUT_MS):
            channel = await self._net.connect(endpoint.host, endpoint.port)
            try:
                answer = await ask(channel, client, ApiKey.FETCH, REPLICA_FETCH_VERSION, [body])
            finally:
                channel.close()
            response = decode_fetch_response(REPLICA_FETCH_VERSION, answer.frame, answer.position)
            if len(response.partitions) != 1:
                raise NotMended(f"broker {effect.leader_id} answers {response.error_code}")
            (data,) = response.partitions
            if data.error is ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > position.fetch_offset:
                raise DeletedThere(data.log_start_offset)
            if data.error is not ErrorCode.NONE:
                raise NotMended(
                    f"broker {effect.leader_id} gives nothing at {position.fetch_offset}: {data.error.name}"
                )
            return LeaderAnswer(
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                diverging=data.diverging_epoch,
                records=data.view,
                compacted=data.compacted,
            )
        raise NotMended(f"broker {effect.leader_id} does not answer")

    # Metrics

    def collect(self) -> Iterator[Metric]:
        yield counter("springtide_scrub_bytes", "Bytes read by the scrub", self.bytes_read)
        yield counter("springtide_scrub_passes", "Logs read to their high watermark", self.passes)
        yield counter("springtide_scrub_findings", "Holes found: bytes at rest that rotted", self.findings)
        yield counter("springtide_scrub_mended_bytes", "Bytes mended from leaders", self.bytes_mended)
        yield gauge(
            "springtide_scrub_oldest_unread_seconds",
            "How long ago the byte was read that was read longest ago, at most",
            max(0, self._order.age_ms(self._clock.wall_ms())) / 1_000,
        )
        yield gauge(
            "springtide_rotten_replicas",
            "Replicas here with bytes that rotted and are not mended",
            sum(bool(hosted.log.rotten) for hosted in self._table),
        )


def _fitting(hosted: HostedPartition, hole: Hole, fetched: LeaderAnswer) -> tuple[int, int]:
    return fitting_bytes(
        memoryview(fetched.records),
        first_offset=hole.first_offset,
        next_offset=hole.next_offset,
        size_bytes=hole.end_position - hole.position,
        epoch_at=hosted.log.epochs.epoch_at,
    )


def _is_asked_for(hosted: HostedPartition, effect: MendLog) -> bool:
    state = hosted.replica.state
    return state is not None and (state.leader, state.leader_epoch) == (effect.leader_id, effect.leader_epoch)


def encode_progress(progress: dict[PartitionKey, ScrubProgress]) -> bytes:
    return msgspec.json.encode([(key[0], key[1], at) for key, at in progress.items()])


def decode_progress(encoded: bytes) -> dict[PartitionKey, ScrubProgress]:
    """Empty if it can't be read: everything is read again then, which costs time and nothing else."""
    try:
        rows = msgspec.json.decode(encoded, type=list[tuple[str, int, ScrubProgress]])
    except ValueError:
        return {}
    return {(topic_id, partition): at for topic_id, partition, at in rows}
