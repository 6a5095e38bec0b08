"""Shards of coordinators, and who may tell what stands in them (13, coordinators)."""

from __future__ import annotations

from tests.kit.coordinator.counter import Counted, ReadCounter, ReadLatest
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import CLIENT, Script


@scenario("S91", coordinators=2)
def former_owner_is_asked_what_it_remembers(s: Script) -> None:
    """It has not heard that the shard is another's, has nothing to write, and clients count elsewhere."""
    shards = s.cluster.shards
    assert shards is not None
    s.until("the shard is written", lambda: shards.answered > 0)
    shards.stop_clients()
    s.until("the shard is at rest", lambda: shards.missing() is None)
    former = shards.serving[0]
    s.cut_off(former.name, *s.cluster.controllers, *(client.name for client in shards.clients))
    s.until("the shard is another's", lambda: any(node is not former for node in shards.serving))
    answered = shards.answered
    shards.start_again()
    s.until("clients count there", lambda: shards.answered > answered + 2)
    s.run_for(2 * s.cluster.options.lease_ms)
    s.reached("the former owner believes that it serves", former in shards.serving)
    known = int(shards.state[b"counter"])
    heard: list[object] = []
    for question in (ReadCounter(0), ReadLatest(0)):
        s.network.call(CLIENT, former.name, question, heard.append, timeout_ms=5_000, on_timeout=lambda: None)
    s.run_for(5_000)
    told = [answer.value for answer in heard if isinstance(answer, Counted)]
    s.expect("13.8", f"{told} are told where {known} was known", all(value >= known for value in told))
