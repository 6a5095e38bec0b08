"""Topics that are deleted by mistake and restored."""

from __future__ import annotations

from springtide.contract.partition_state import PartitionKey
from tests.simulation.kinds_kept import FOR_EVER_MS, NAME
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script


def _deleted(s: Script, *, retention_ms: int = FOR_EVER_MS) -> PartitionKey:
    """A topic that was written to, and is deleted and kept; its leaders have stopped."""
    operator = s.cluster.operator
    operator.create(s.controller, NAME, configs={"deleted.topic.retention.ms": str(retention_ms)})
    s.until("it exists", lambda: NAME in operator.topics)
    key = (operator.topics[NAME], 0)
    s.traffic()
    s.until("it is written to", lambda: s.cluster.ghosts[key].end_offset > 10)
    s.quiet()
    operator.delete(s.controller, NAME)
    s.until("it is kept", lambda: key[0] in operator.kept)
    s.until("its leaders have stopped", lambda: s.cluster.zookeeper.nodes[_row(key)].value.state.name_is_free)
    return key


def _row(key: PartitionKey) -> str:
    return f"topic/{key[0]}"


def _restore(s: Script, key: PartitionKey) -> None:
    s.cluster.operator.restore(s.controller, key[0])
    s.must("I1", "it is restored", lambda: NAME in s.cluster.operator.topics)


@scenario("S92", family="kept", controllers=2)
def restored_after_a_power_loss_and_a_failover(s: Script) -> None:
    """While it is kept, the first of its replicas loses what it had not flushed, and the controller dies."""
    key = _deleted(s)
    state = s.cluster.truth(key)
    assert state is not None
    lost = s.cluster.brokers[state.replicas[0]]
    lost.crash()
    lost.disk.boot_id += 1
    log = lost.disk.logs[key]
    batches = len(log.batches)
    log.lose_end(s.cluster.ghosts[key].end_offset // 2)
    s.reached("its first replica lacks records", len(log.batches) < batches)
    s.controller.crash()
    lost.start()
    s.until("another controller leads", lambda: s.cluster.active_controller() is not None)
    brokers = s.controller.published.brokers
    s.until(
        "the broker is trusted again",
        lambda: lost.session.is_registered and not brokers[lost.broker_id].fenced,
    )
    _restore(s, key)
    s.must("I1", "it is led", lambda: (now := s.cluster.truth(key)) is not None and now.leader != -1)
    s.traffic()
    end_offset = s.cluster.ghosts[key].end_offset
    s.must("L2", "it is written to again", lambda: s.cluster.ghosts[key].end_offset > end_offset + 5)


@scenario("S92", brokers=4, family="kept")
def a_replica_that_was_away_while_it_was_deleted_and_restored(s: Script) -> None:
    """It comes back to a topic that lives, and has its log."""
    operator = s.cluster.operator
    operator.create(s.controller, NAME, configs={"deleted.topic.retention.ms": str(FOR_EVER_MS)})
    s.until("it exists", lambda: NAME in operator.topics)
    key = (operator.topics[NAME], 0)
    s.traffic()
    s.until("it is written to", lambda: s.cluster.ghosts[key].end_offset > 5)
    s.quiet()
    state = s.cluster.truth(key)
    assert state is not None
    away = s.cluster.brokers[state.replicas[-1]]
    s.kill(away)
    operator.delete(s.controller, NAME)
    s.until("it is kept", lambda: key[0] in operator.kept)
    s.until("its leaders have stopped", lambda: s.cluster.zookeeper.nodes[_row(key)].value.state.name_is_free)
    away.start()
    s.until("it is back", lambda: away.session.is_registered)
    s.run_for(500)
    s.reached("it has its log, and no replica", key in away.disk.logs and key not in away.replicas)
    _restore(s, key)
    s.must(
        "L2", "all are in sync", lambda: (now := s.cluster.truth(key)) and len(now.isr) == len(now.replicas)
    )


@scenario("S92", family="kept")
def a_topic_whose_time_is_over_goes_from_every_disk(s: Script) -> None:
    """One of its brokers is away when the time ends."""
    key = _deleted(s, retention_ms=6_000)
    state = s.cluster.truth(key)
    assert state is not None
    away = s.cluster.brokers[state.replicas[-1]]
    s.kill(away)
    s.run_for(6_000)
    holders = s.cluster.brokers.values()
    s.until("the others have deleted it", lambda: not any(key in b.disk.logs for b in holders if b.is_up))
    s.reached("the one that is away has it", key in away.disk.logs)
    s.cluster.operator.notice_deletions()
    away.start()
    s.must("L5", "it is gone from every disk", lambda: key not in away.disk.logs)
    s.must("L5", "nothing is left of it", lambda: _row(key) not in s.cluster.zookeeper.nodes)
