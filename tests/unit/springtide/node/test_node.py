"""What each process that serves clients is made of, without a network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import trio

from springtide.contract.epochs import ControllerEpoch
from springtide.contract.session import ProcessLoad
from springtide.node.cluster_view import ClusterView
from springtide.node.config import NodeConfig
from springtide.node.controller_client import Role, Seen
from springtide.node.counters import NodeCounters
from springtide.node.listeners import BoundListeners, ListenersSettings
from springtide.node.node import ServingNode
from springtide.node.settings import Bound, NodePorts, NodeSettings
from tests.kit.springtide.memory_net import NoListener


def node(role: Role = "brokers", *, seen: Seen | None = None) -> ServingNode:
    settings = NodeSettings(
        cluster="c",
        listeners=ListenersSettings.one("127.0.0.1", 1),
        controllers=("http://controller.invalid",),
        rack="r1",
        version="test",
    )
    return ServingNode(
        settings,
        NodePorts(controller_transport=httpx.MockTransport(lambda _: httpx.Response(503))),
        Bound(BoundListeners(settings.listeners, {"": NoListener()}, {})),
        node_id=7,
        role=role,
        config=NodeConfig(),
        counters=NodeCounters(),
        view=ClusterView(),
        seen=seen or Seen(),
    )


def test_a_registration_tells_the_address_that_other_processes_use_and_no_directory() -> None:
    one = node()
    identity = one.identity()
    assert (identity.broker_id, identity.host, identity.port) == (7, "127.0.0.1", 1)
    assert (identity.rack, identity.version, identity.log_dir_ids) == ("r1", "test", ())
    assert identity.incarnation_id == one.incarnation_id != node().incarnation_id


def test_the_load_is_of_all_requests_and_of_the_connections_that_are_open() -> None:
    one: Any = node()
    one.server = SimpleNamespace(connection_count=3)
    one.counters.requests |= {0: 5, 1: 7}
    assert one.load() == ProcessLoad(connections=3, requests=12)


def test_a_coordinator_asks_under_its_own_role_and_a_broker_with_what_it_has_seen() -> None:
    assert node("coordinators").client.role == "coordinators"
    assert node(seen=Seen(ControllerEpoch(5), "lineage", 9)).client.seen == Seen(
        ControllerEpoch(5), "lineage", 9
    )


def test_a_task_runs_only_between_the_start_and_the_end_of_its_process() -> None:
    ran: list[int] = []
    turns: list[int] = []

    async def run() -> None:
        one: Any = node()
        one.end_turn = lambda: turns.append(len(ran))  # by the server, which there is none of

        async def work() -> None:
            ran.append(len(ran))

        one.spawn(work)
        async with trio.open_nursery() as nursery:
            one._nursery = nursery
            one.spawn(work)
        await one.close()
        one.spawn(work)

    trio.run(run)
    assert ran == [0]
    assert turns == [1]
