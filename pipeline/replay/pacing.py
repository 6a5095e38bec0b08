"""The pace at which a task may send to each broker: virtual scheduling (the ATM Forum's GCRA). Pure, time is
an argument.

A request takes its time at the wanted rate; the next one waits until that is over. Requests are not split, so
one larger than a second's worth is sent, and the next waits longer. A pause saves up no more than the burst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

BURST_MS = 500


class SendRates(NamedTuple):
    """The most a second that one task sends to one broker; None: no limit."""

    records: float | None = None
    bytes: float | None = None

    def shared(self, tasks: int) -> SendRates:
        """Return each task's part, if so many run at once."""
        return SendRates(*(None if rate is None else rate / tasks for rate in self))

    @property
    def is_limited(self) -> bool:
        return self.records is not None or self.bytes is not None


NO_LIMIT = SendRates()


class SentLoad(NamedTuple):
    """The load that one request puts on a broker."""

    records: int = 0
    bytes: int = 0


class Pace:
    """Keeps the rate for each broker on its own."""

    def __init__(self, rates: SendRates) -> None:
        self._rates = rates
        self._paid_until_ms: dict[int, float] = {}
        """End of the time that all requests sent to a broker take at the wanted rate, by broker."""

    def wait_ms(self, brokers: Mapping[int, SentLoad], *, now_ms: int) -> int:
        """Return how long until a request may be sent to all of these."""
        late = max((self._paid_until_ms.get(broker, 0.0) - BURST_MS for broker in brokers), default=0.0)
        return max(0, math.ceil(late - now_ms))

    def on_sent(self, brokers: Mapping[int, SentLoad], *, now_ms: int) -> None:
        for broker, load in brokers.items():
            begins = max(self._paid_until_ms.get(broker, 0.0), float(now_ms))
            self._paid_until_ms[broker] = begins + self._cost_ms(load)

    def _cost_ms(self, load: SentLoad) -> float:
        costs = [
            1000 * amount / rate for amount, rate in zip(load, self._rates, strict=True) if rate is not None
        ]
        return max(costs, default=0.0)
