"""Which brokers are on one host, as far as their registrations say. Pure.

The only name of a host that a broker gives is the one by which it is advertised. Containers behind one
address, ports of nodes and port mappings give many hosts one name: taken for a host, it hid the racks that
were named, because a host lies within one rack. So brokers of one name in different racks are on different
hosts.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.records import BrokerRegistration


def hosts_of(brokers: Iterable[BrokerRegistration]) -> dict[int, str]:
    """Return, by broker, the name of the host that it counts as: the advertised one, apart by rack where
    brokers of that name are in several."""
    found = list(brokers)
    racks: dict[str, set[str]] = {}
    for broker in found:
        if broker.rack is not None:
            racks.setdefault(broker.host, set()).add(broker.rack)
    return {
        broker.broker_id: f"{broker.host} in {broker.rack}"
        if broker.rack is not None and len(racks[broker.host]) > 1
        else broker.host
        for broker in found
    }
