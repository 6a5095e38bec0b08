"""Estimates of learners' copying speed and remaining time, from their leaders' reports. They decide nothing.

A leader reports for each learner how many bytes of its log the learner lacks, as the learner's last fetch
said. A few of these reports are kept, some seconds apart, for one controller's life. The gap closes by what
is copied less what producers write meanwhile, so an estimate is made from the speed at which the gap
*closed* in each recent interval: `p50` takes the median of those speeds, `p90` the one that nine of ten
intervals reached. No estimate is given before there are a few intervals, nor while the gap does not close:
then there is no time at which the copy would be complete.

A learner that is throttled below what producers write falls behind for ever (KIP-73 leaves it to the operator
to find out): its gap is larger than it was a while ago.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from controller.core.image import ClusterImage
from springtide.contract.lag_report import FollowerLag, PartitionLag
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.throttles import FOLLOWER_RATE, LEADER_RATE, effective_rate, is_learner

SAMPLE_MS = 5_000
"""The least time between two samples: longer than a throttled learner usually waits for its turn."""
SAMPLES_MAX = 13
"""A minute."""
INTERVALS_MIN = 3
LEARNERS_MAX = 20_000
"""Learners whose samples are kept; later ones are shown without rate and estimate."""


class CopyEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """rate: bytes per second copied over the watched time. eta_ms_p50, eta_ms_p90: until nothing is missing,
    at the median closing speed and at the one that 90 % of the intervals reached; None: not known, or never
    at that speed. is_falling_behind: the gap is larger than it was `behind_ms` before."""

    rate: int | None = None
    eta_ms_p50: int | None = None
    eta_ms_p90: int | None = None
    is_falling_behind: bool = False


class _Sample(NamedTuple):
    at_ms: int
    remaining_bytes: int
    size_bytes: int
    log_start_offset: int


class CopyBook:
    """Recent samples of each learner, under its leader's epoch: another leader's log has other bytes."""

    __slots__ = ("_learners", "_samples")

    def __init__(self) -> None:
        self._samples: dict[PartitionKey, dict[int, tuple[int, deque[_Sample]]]] = {}
        self._learners = 0

    def note(self, image: ClusterImage, state: PartitionState, lag: PartitionLag, now_ms: int) -> None:
        """A leader's report about a partition that is being reassigned."""
        key = (lag.topic_id, lag.partition)
        for follower in lag.followers:
            if follower.remaining_bytes >= 0 and is_learner(state, follower.broker_id):
                self._note_learner(image, key, lag, follower, now_ms)

    def _note_learner(
        self, image: ClusterImage, key: PartitionKey, lag: PartitionLag, follower: FollowerLag, now_ms: int
    ) -> None:
        sample = _Sample(now_ms, follower.remaining_bytes, lag.size_bytes, lag.log_start_offset)
        known = self._samples.get(key, {}).get(follower.broker_id)
        if known is None or known[0] != lag.leader_epoch:
            if known is None:
                if self._learners >= LEARNERS_MAX:
                    self.forget_ended(image)
                    if self._learners >= LEARNERS_MAX:
                        return
                self._learners += 1
            samples = deque([sample], maxlen=SAMPLES_MAX)
            self._samples.setdefault(key, {})[follower.broker_id] = (lag.leader_epoch, samples)
        elif now_ms - known[1][-1].at_ms >= SAMPLE_MS:
            known[1].append(sample)

    def forget_ended(self, image: ClusterImage) -> None:
        self._samples = {key: kept for key, kept in self._samples.items() if key in image.reassigning}
        self._learners = sum(len(kept) for kept in self._samples.values())

    def estimate(self, state: PartitionState, follower: FollowerLag, *, behind_ms: int) -> CopyEstimate:
        """Estimate the copy from the learner's last report. An idle leader does not repeat itself, so samples
        may be old."""
        known = self._samples.get((state.topic_id, state.partition), {}).get(follower.broker_id)
        if known is None or known[0] != state.leader_epoch:
            return CopyEstimate()
        samples = known[1]
        speeds = sorted(
            (before.remaining_bytes - after.remaining_bytes) * 1_000 // (after.at_ms - before.at_ms)
            for before, after in _pairs(samples)
        )
        remaining = follower.remaining_bytes
        last = samples[-1]
        earlier = [sample for sample in samples if sample.at_ms <= last.at_ms - behind_ms]
        is_behind = bool(earlier) and last.remaining_bytes > earlier[-1].remaining_bytes
        is_known = len(speeds) >= INTERVALS_MIN
        return CopyEstimate(
            rate=_copied_per_second(samples),
            eta_ms_p50=eta_ms(remaining, speeds[(len(speeds) - 1) // 2]) if is_known else None,
            eta_ms_p90=eta_ms(remaining, speeds[len(speeds) // 10]) if is_known else None,
            is_falling_behind=is_behind and remaining > 0,
        )


def throttled_rate(image: ClusterImage, state: PartitionState, broker_id: int) -> int | None:
    """Return the lowest of the rates that bound this replica, bytes per second; None if the replica is not a
    learner or no rate is set. The operation's and the brokers' are shared with other learners, so it may get
    less."""
    if not is_learner(state, broker_id):
        return None
    rates = [None if state.throttle is None else state.throttle.rate]
    for name, broker in ((FOLLOWER_RATE, broker_id), (LEADER_RATE, state.leader)):
        registration = image.brokers.get(broker)
        rates.append(
            effective_rate(name, {} if registration is None else registration.configs, image.configs)
        )
    return min((rate for rate in rates if rate is not None), default=None)


def _pairs(samples: deque[_Sample]) -> zip[tuple[_Sample, _Sample]]:
    return zip(samples, list(samples)[1:], strict=False)


def _copied_per_second(samples: deque[_Sample]) -> int | None:
    """Return what was written to the leader meanwhile, less the growth of the gap. Intervals in which the
    leader deleted old segments don't tell what was written."""
    copied = elapsed_ms = 0
    for before, after in _pairs(samples):
        if before.log_start_offset == after.log_start_offset:
            written = after.size_bytes - before.size_bytes
            copied += max(0, written - (after.remaining_bytes - before.remaining_bytes))
            elapsed_ms += after.at_ms - before.at_ms
    return copied * 1_000 // elapsed_ms if elapsed_ms else None


def eta_ms(remaining_bytes: int, speed: int) -> int | None:
    """Return the time until nothing remains, at a speed in bytes per second; None if that is never."""
    if remaining_bytes == 0:
        return 0
    return -(-remaining_bytes * 1_000 // speed) if speed > 0 else None
