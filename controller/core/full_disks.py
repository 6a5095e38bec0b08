"""The brokers whose disks have no room, as the controller has heard of late. It is no metadata: a controller
that takes over hears it with the first heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.core.records import BrokerRegistration


class FullDisks(NamedTuple):
    """short: brokers below their reserve: they take no records, and get no replica. full: those whose disk is
    nearly full (`disk_full`): they get replicas only where there are too few others."""

    short: set[int]
    full: set[int]

    def takers(self, brokers: Sequence[BrokerRegistration], factor: int) -> Sequence[BrokerRegistration]:
        """Return those of the brokers that get new replicas, `factor` of each partition."""
        with_room = [broker for broker in brokers if broker.broker_id not in self.short]
        ample = [broker for broker in with_room if broker.broker_id not in self.full]
        return ample if len({broker.owner_id for broker in ample}) >= factor else with_room
