"""Where the leaders are that an answer points to (KIP-951)."""

from __future__ import annotations

from dataplane.handlers.context import BrokerContext
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.leader_hints import CurrentLeader, NodeEndpoint


class LeaderHints:
    """Collects the leaders that one answer names. listener: by which the client came."""

    def __init__(self, context: BrokerContext, listener: str) -> None:
        self._context = context
        self._listener = listener
        self._endpoints: dict[int, NodeEndpoint] = {}

    def of(self, topic_id: str, partition: int) -> CurrentLeader | None:
        """Return the leader as this broker knows it. None if it would point here, or the client can't reach
        it."""
        context = self._context
        state = context.view.state(topic_id, partition)
        if state is None or state.leader in (NO_LEADER, context.broker_id):
            return None
        broker = context.view.brokers.get(state.leader)
        address = broker.address_for(self._listener) if broker is not None and broker.active else None
        if broker is None or address is None:
            return None
        self._endpoints[state.leader] = NodeEndpoint(broker.broker_id, *address, broker.rack)
        return CurrentLeader(state.leader, state.leader_epoch)

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """Return the address of each leader that was named, in the order of their ids."""
        return [self._endpoints[broker_id] for broker_id in sorted(self._endpoints)]
