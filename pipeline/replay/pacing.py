"""How fast a task may send to each broker: virtual scheduling (the ATM Forum's GCRA). Pure, time is an
argument.

What is sent takes its time at the wanted rate; the next sending waits until that is over. A sending is never
cut up, so one that is larger than a second's worth is let through and paid for afterwards. An idle broker's
share is not saved up beyond the burst: a pause is not followed by a flood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

BURST_MS = 500


class Rates(NamedTuple):
    """The most a second, each None for no limit. Of one task to one broker."""

    records: float | None = None
    bytes: float | None = None

    def shared(self, tasks: int) -> Rates:
        """Each task's part, when so many run at once."""
        return Rates(*(None if rate is None else rate / tasks for rate in self))

    @property
    def is_limited(self) -> bool:
        return self.records is not None or self.bytes is not None


NO_LIMIT = Rates()


class Load(NamedTuple):
    """What one sending brings a broker."""

    records: int = 0
    bytes: int = 0


class Pace:
    """Sendings to brokers, one broker independent of another."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._paid_until_ms: dict[int, float] = {}
        """By broker: when all that was sent has taken its time."""

    def wait_ms(self, brokers: Mapping[int, Load], *, now_ms: int) -> int:
        """How long until something may be sent to all of these."""
        late = max((self._paid_until_ms.get(broker, 0.0) - BURST_MS for broker in brokers), default=0.0)
        return max(0, math.ceil(late - now_ms))

    def on_sent(self, brokers: Mapping[int, Load], *, now_ms: int) -> None:
        for broker, load in brokers.items():
            begins = max(self._paid_until_ms.get(broker, 0.0), float(now_ms))
            self._paid_until_ms[broker] = begins + self._cost_ms(load)

    def _cost_ms(self, load: Load) -> float:
        costs = [
            1000 * amount / rate for amount, rate in zip(load, self._rates, strict=True) if rate is not None
        ]
        return max(costs, default=0.0)
