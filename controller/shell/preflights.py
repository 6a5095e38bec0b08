"""What is known of a cluster's brokers before they are admitted, as far as it was heard in this term."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.options import PreflightLimits
from controller.core.preflight import HeardReport, PreflightCheck, judge, targets
from controller.shell.listeners import ListenerAnswer, Listeners
from controller.shell.published import Published
from controller.shell.timekeeper import Timekeeper
from springtide.contract.errors import ControllerError
from springtide.contract.preflight import PreflightReport, PreflightTarget


class Preflights:
    """The latest report of each broker."""

    def __init__(
        self, published: Published, *, clock: Timekeeper, listeners: Listeners, limits: PreflightLimits
    ) -> None:
        self._published = published
        self._clock = clock
        self._listeners = listeners
        self._limits = limits
        self._heard: dict[int, HeardReport] = {}

    def targets(self, broker_id: int) -> tuple[PreflightTarget, ...] | None:
        """Return the listeners that this broker shall try, or None if there is nothing to report."""
        return targets(self._published.image, broker_id)

    async def take(self, report: PreflightReport) -> ControllerError:
        """Keep what a broker found; of one that waits, try the listener as well."""
        broker = self._published.image.brokers.get(report.broker_id)
        if broker is None:
            return ControllerError.BROKER_NOT_REGISTERED
        if broker.broker_epoch != report.broker_epoch:
            return ControllerError.STALE_BROKER_EPOCH
        reaches = None
        if not broker.admitted:
            reaches = await self._listeners.ask(broker.host, broker.port) is ListenerAnswer.ACCEPTED
        self._heard[broker.broker_id] = HeardReport(
            report=report, received_ms=self._clock.now_mono_ms(), controller_reaches=reaches
        )
        return ControllerError.NONE

    def judge(self, broker_ids: Sequence[int]) -> tuple[PreflightCheck, ...]:
        """Return what is known of these brokers."""
        now_ms = self._clock.now_mono_ms()
        return judge(self._published.image, self._heard, broker_ids, self._limits, now_ms=now_ms)
