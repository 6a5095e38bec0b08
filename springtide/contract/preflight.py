"""The tests before a broker is admitted, and the brokers' answers.

While brokers wait to be added, the answer to every heartbeat names the listeners that its sender shall try:
a waiting broker is told of its future peers, a live one of those that wait. Each tries again every few
seconds and reports what it found. Nothing of it is stored; a controller that takes over asks again, and
a broker of an older release, which does not report, holds an admission up until it is upgraded.
"""

from __future__ import annotations

import msgspec

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerAnswer
from springtide.contract.words import WireWord


class PreflightTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A listener to be tried: where this incarnation says that it is."""

    broker_id: int
    broker_epoch: BrokerEpoch
    host: str
    port: int


class ReachFailure(WireWord):
    """Why a listener is not as it should be."""

    #: No connection, or no answer on it.
    LISTENER_UNREACHABLE = "listener_unreachable"
    #: It answered, and does not speak what replication needs, or not the Kafka protocol at all.
    INCOMPATIBLE_VERSION = "incompatible_version"
    UNKNOWN = "unknown"


class PeerReach(msgspec.Struct, frozen=True, kw_only=True):
    """The result of trying one listener. failure: None if it answered as a broker should."""

    broker_id: int
    broker_epoch: BrokerEpoch
    failure: ReachFailure | None = None
    detail: str = ""


class DiskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """free_bytes: of the file system that holds the log directory. flush_us, flush_us_max: median and longest
    of a few small appends, each forced to disk; -1: not tried. failure: why it could not be measured."""

    free_bytes: int = -1
    flush_us: int = -1
    flush_us_max: int = -1
    failure: str = ""


class ClockFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The lead of the controller's wall clock over the broker's, and the error that it may have: half the
    round trip of the heartbeat that told it."""

    ahead_ms: int
    error_ms: int


class PreflightReport(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:preflight`. The latest replaces the one before."""

    broker_id: int
    broker_epoch: BrokerEpoch
    peers: tuple[PeerReach, ...] = ()
    disk: DiskFigures | None = None
    clock: ClockFigures | None = None


class PreflightResponse(ControllerAnswer, frozen=True, kw_only=True): ...
