"""Who writes metadata, and in what order brokers hear of it."""

from __future__ import annotations

from springtide.contract.lag_report import LagReport
from springtide.contract.session import HeartbeatRequest, RegisterRequest
from springtide.contract.updates import PollRequest, UpdateBatch
from tests.simulation.scenarios.registry import scenario
from tests.simulation.scenarios.script import Script
from tests.simulation.zookeeper import Outcome


@scenario("S16", controllers=2)
def write_of_a_deposed_controller(s: Script) -> None:
    """The first controller decides to fence B; its write reaches ZooKeeper after its successor's first."""
    first = s.controller
    other = next(c for c in s.cluster.controllers if c is not first)
    slow = s.hold_writes(first)
    s.kill(s.b)
    s.until("it has written", lambda: len(slow) > 0)
    first.pause()
    pushes = s.hold(UpdateBatch, source=first, reply=True)
    s.cluster.zookeeper.expire(first.session)
    s.until("the other leads", lambda: other.machine is not None and other.is_authoritative())
    s.b.start()
    s.until("the successor has written", lambda: s.b.session.is_registered)
    state, epoch = s.state, s.cluster.zookeeper.nodes["controller_epoch"].value
    slow.release()
    s.run_for(20)
    s.reached(
        "the old write arrives under a lower controller epoch",
        epoch > first.controller_epoch and len(slow.outcomes) > 0,
    )
    s.expect("I5", "it is refused", Outcome.APPLIED not in slow.outcomes)
    s.expect("I5", "and changes nothing", s.state.partition_epoch >= state.partition_epoch)
    pushes.release()
    first.resume()


@scenario("S17")
def applied_write_whose_answer_is_lost(s: Script) -> None:
    """ZooKeeper fences B, and the controller does not hear so; then B comes back."""
    controller = s.controller
    epoch = controller.controller_epoch
    before = s.state.partition_epoch
    s.cluster.zookeeper.lose_answers(1.0)
    s.kill(s.b)
    s.until("the write is applied", lambda: s.state.partition_epoch > before)
    s.reached(
        "the controller does not know", controller.published.partitions[s.key].partition_epoch == before
    )
    s.run_for(100)
    s.cluster.zookeeper.answer_again(1.0)
    s.restart(s.b)
    s.expect("2.4", "what was applied is read back, not given up", controller.controller_epoch == epoch)


@scenario("S32")
def doubled_and_late_control_messages(s: Script) -> None:
    """Whatever a broker tells the controller arrives again, up to a second later, over three changes of the
    leader: requests for an ISR that is over, polls from where the broker was, signs of life of the dead."""
    late = s.double((LagReport, PollRequest, HeartbeatRequest, RegisterRequest), low_ms=50, high_ms=1_200)
    s.traffic()
    for _ in range(3):
        leader = s.cluster.brokers[s.state.leader]
        s.kill(leader)
        s.until("another leads", lambda: s.state.leader not in (-1, leader.broker_id))  # noqa: B023
        s.run_for(s.random.randrange(20, 200))
        s.restart(leader)
        s.run_for(1_300)
    reports = [(each, epoch) for each, epoch in late if isinstance(each, LagReport)]
    beats = [each for each, _ in late if isinstance(each, HeartbeatRequest)]
    s.reached(
        "requests of a past ISR and of past incarnations came late",
        any(proposal.partition_epoch < epoch for each, epoch in reports for proposal in each.proposals)
        and any(each.broker_epoch < s.cluster.registered_epoch(each.broker_id) for each in beats)
        and s.state.leader_epoch >= 3,
    )
