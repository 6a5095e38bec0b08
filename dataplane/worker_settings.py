"""The settings of a worker, from its broker's, by the rules of core/workers.py.

What a host has once is shared out: memory for requests (queued.max.request.bytes) and for the newest bytes of
logs, and what the scrub reads of the disks (log.scrub.bytes.per.second). Everything else is each worker's
own, since each is a broker to clients: connections, fetch sessions, quotas, throttled rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dataplane.broker import BrokerSettings
from dataplane.core.workers import Endpoint, check_workers, worker_port, worker_share
from dataplane.shell.config import BrokerConfig
from springtide.contract.session import worker_id
from springtide.node.listeners import HostPort, ListenerSettings, ListenersSettings

SHARED_KEYS = ("queued.max.request.bytes", "log.scrub.bytes.per.second")


def check_settings(settings: BrokerSettings, workers: int) -> None:
    """Raise WorkersRefused if a broker with these settings can't have so many workers."""
    check_workers(settings.broker_id, workers, list(_endpoints(settings)))


def settings_of_worker(settings: BrokerSettings, number: int, workers: int) -> BrokerSettings:
    """Return the settings of worker `number` of several; `check_settings` has let them pass."""
    shares = {key: worker_share(settings.config.number(key), workers) for key in SHARED_KEYS}
    return replace(
        settings,
        broker_id=worker_id(settings.broker_id, number),
        worker_of=settings.broker_id,
        listeners=_all_of_worker(settings.listeners, number),
        metrics=settings.metrics and _of_worker(settings.metrics, number),
        config=BrokerConfig({**settings.config.values, **shares}),
        tail_bytes_max=worker_share(settings.tail_bytes_max, workers),
    )


def _all_of_worker(listeners: ListenersSettings, number: int) -> ListenersSettings:
    shifted = {one.name: _of_worker(one, number) for one in listeners.all}
    return ListenersSettings(all=tuple(shifted.values()), inter_broker=shifted[listeners.inter_broker.name])


def _of_worker(one: ListenerSettings, number: int) -> ListenerSettings:
    advertised = one.advertised and _address_of_worker(one.advertised, number)
    return replace(one, bind=_address_of_worker(one.bind, number), advertised=advertised)


def _address_of_worker(address: HostPort, number: int) -> HostPort:
    return HostPort(address.host, worker_port(address.port, number))


def _endpoints(settings: BrokerSettings) -> Iterator[Endpoint]:
    for one in settings.listeners.all:
        name = f"listener {one.name}" if one.name else "--listen"
        yield Endpoint(name=name, host=one.bind.host, port=one.bind.port)
        if one.advertised is not None:
            host, port = one.advertised
            yield Endpoint(name=f"what is advertised of {name}", host=host, port=port, is_advertised=True)
    if settings.metrics is not None:
        host, port = settings.metrics.bind
        yield Endpoint(name="--metrics-listen", host=host, port=port)
