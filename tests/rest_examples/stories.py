"""The script: small stories of a cluster `prod`, each told to a controller of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import msgspec

from admin_api.http.models import timestamp
from controller.core.events import AdmitBrokers, Report
from controller.core.last_hour import SAMPLE_MS
from controller.shell.client_groups import MemberDetail
from controller.shell.client_transactions import OpenProducer
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.groups import (
    GroupLag,
    GroupNews,
    GroupRebalance,
    MovedPartition,
    MovedPartitions,
    RebalanceCause,
    TopicLag,
)
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import FollowerLag, LagReport, ReplicaLogEnd
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER
from springtide.contract.session import DiskSpace, ProcessLoad
from tests.kit.admin_api import plans
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.rest import CLIENT_ADDRESS, Rest, controller, speaking
from tests.kit.admin_api.transactions import hang, report_open
from tests.kit.clocks import WALL_START_MS
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper
from tests.rest_examples.recorder import Answers, Recorder, VirtualLoop, written

SIZE_BYTES: Final = 402_653_184
SAMPLES_SHOWN: Final = 10
SAMPLES_WITHOUT_BROKER_1: Final = (6, 7)
RATE: Final = "follower.replication.throttled.rate"
FACTOR: Final = "default.replication.factor"
MINIMUM: Final = "min.insync.replicas"


def run_stories() -> str:
    """Run all stories; return the text of the file of examples."""
    answers: Answers = {}

    async def tell() -> None:
        for story in STORIES:
            async with controller(MemoryZooKeeper(), name="controller1") as rest:
                await story(Recorder(rest, answers))

    anyio.run(tell, backend_options={"loop_factory": VirtualLoop})
    return written(answers)


def _broker(rest: Rest, broker_id: int) -> Broker:
    """A broker on a host and in a rack of its own, started and heard."""
    broker = Broker(rest.engine, broker_id)
    broker.request = msgspec.structs.replace(
        broker.request,
        host=f"store{broker_id}",
        port=9092,
        rack=f"r{(broker_id - 1) % 3 + 1}",
        version="1.0.0",
    )
    rest.listeners.open(f"store{broker_id}", 9092)
    return broker


async def _beat(brokers: list[Broker]) -> None:
    """The brokers are heard, and apply what they were told."""
    for broker in brokers:
        await broker.heartbeat()
        await broker.apply()
        await broker.heartbeat()


async def _form(story: Recorder, count: int = 3) -> list[Broker]:
    rest = story.rest
    if not rest.engine.clusters():
        await rest.engine.create_cluster("prod", configs={}, actor="alice")
    brokers = [_broker(rest, broker_id) for broker_id in range(1, count + 1)]
    for broker in brokers:
        await broker.register()
    ids = tuple(broker.broker_id for broker in brokers)
    wall_ms = rest.clock.now_wall_ms()
    await rest.engine.submit("prod", AdmitBrokers(broker_ids=ids, actor="alice", wall_ms=wall_ms))
    await _beat(brokers)
    return brokers


async def _orders(story: Recorder, brokers: list[Broker], partitions: int = 1, **fields: Any) -> None:
    """`orders`, whose preferred leader of partition 0 is broker 1, and what its leaders report."""
    rows = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    fields = {"assignments": [rows[number % 3] for number in range(partitions)]} | fields
    await story.rest.create_topic(partitions=partitions, **fields)
    await _made(story.rest, brokers)


async def _made(rest: Rest, brokers: list[Broker]) -> None:
    """The brokers create their replicas, and their leaders report them."""
    await _beat(brokers)
    while rest.engine.cluster("prod").image.unconfirmed_new:
        await rest.clock.sleep_ms(500)
        await _beat(brokers)
    await _report(rest, brokers)


async def _report(rest: Rest, brokers: list[Broker], remaining_bytes: int = 0) -> None:
    for state in plans.partitions(rest):
        followers = tuple(
            FollowerLag(
                broker_id=replica,
                log_end_offset=40 - lag,
                lag_records=lag,
                lag_ms=lag * 4,
                remaining_bytes=0 if replica in state.isr else remaining_bytes,
            )
            for lag, replica in enumerate(replica for replica in state.replicas if replica != state.leader)
        )
        await plans.report(rest, brokers, state, size_bytes=SIZE_BYTES, isr=(), followers=followers)


async def _fence(rest: Rest, brokers: list[Broker], *broker_ids: int) -> None:
    """The processes of these brokers die."""
    alive = [broker for broker in brokers if broker.broker_id not in broker_ids]
    for broker_id in broker_ids:
        rest.listeners.kill(f"store{broker_id}", 9092)
    for _ in range(30):
        await rest.clock.sleep_ms(400)
        for broker in alive:
            await broker.heartbeat()
            await broker.apply()


async def a_cluster_and_its_topics(story: Recorder) -> None:
    rest = story.rest
    await story.show("createCluster", "dry_run", "What would be created", dry_run=True)
    await story.show("createCluster", "created", "The new cluster")
    brokers = await _form(story)
    await story.show("listAlarms", "none", "Nothing is wrong")
    await story.show("createTopic", "dry_run", "Where its replicas would be", dry_run=True)
    await story.show("createTopic", "created", "The new topic")
    await _made(rest, brokers)
    await story.show("listClusters", "one", "One cluster")
    await story.show("getCluster", "well", "All is well")
    await story.show("listTopics", "one", "One topic")
    await story.show("getTopic", "well", "All partitions online")
    await story.show("listPartitions", "first", "The first partition", limit=1)
    await story.show("getPartition", "well", "All replicas in sync")
    await rest.outbox.flush()
    await story.show("explainReplicas", "origins", "Where each replica comes from")
    await story.show("getReplication", "well", "Followers close behind")
    await story.show("getResilience", "broker", "What losing a broker takes", lose="broker:3", limit=1)
    await story.ask("changeBroker", {"labels": {"owner": "storage"}})
    await story.show("getBroker", "active", "An active broker")
    await story.show("getHealth", "ok", "It is alive")
    await story.show("getReadiness", "active", "The active controller")
    await story.show("getUpgrade", "finalized", "At the highest level of the release")
    await story.show("finalizeUpgrade", "finalized", "There was nothing to finalize")
    await story.show("getProblem", "one", "One of them", code="topic_not_found")
    await story.show("changeTopic", "dry_run", "Where the new ones would be", dry_run=True)
    await story.show("changeTopic", "accepted", "Brokers create the replicas")
    await story.show("deleteTopic", "dry_run", "What would be deleted", dry_run=True)
    await story.show(
        "deleteTopic", "accepted", "Brokers delete their replicas", reason="replaced by orders-v2"
    )
    lines = MissingTopic(
        topic="lines",
        asked=40,
        since_ms=rest.clock.now_wall_ms() - 400_000,
        last_ms=rest.clock.now_wall_ms(),
        client_id="rsyslog",
        software="librdkafka 2.6.1",
    )
    brokers[0].missing_topics = (lines,)
    brokers[1].missing_topics = (msgspec.structs.replace(lines, asked=2),)
    await _beat(brokers)
    await story.show("listMissingTopics", "one", "An application that waits")
    other = {"name": "payments", "partitions": 1, "reason": "the shop opens on Monday"}
    await story.show("createTopicInCluster", "dry_run", "Where it would be", other, dry_run=True)
    await story.show("createTopicInCluster", "created", "The new topic", other)


async def a_topic_deleted_by_mistake(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, configs={"deleted.topic.retention.ms": "604800000"})
    topic_id = rest.engine.cluster("prod").image.topic_ids["orders"]
    async with speaking(rest, brokers):
        await story.ask("deleteTopic")
        await story.show("listDeletedTopics", "one", "A topic that can be restored")
        await story.show("purgeTopic", "dry_run", "What would be deleted", topic_id=topic_id, dry_run=True)
        await story.show("restoreTopic", "dry_run", "What would be restored", topic_id=topic_id, dry_run=True)
        await story.show("restoreTopic", "restored", "With all its records", topic_id=topic_id)
        await story.ask("deleteTopic")
        await story.show("purgeTopic", "accepted", "Brokers delete what they kept", topic_id=topic_id)


async def settings(story: Recorder) -> None:
    await _orders(story, await _form(story))
    await _configs(story, "Topic", MINIMUM, "2")
    await _configs(story, "Broker", RATE, "50000000")
    await _configs(story, "Cluster", FACTOR, "3")
    await story.rest.outbox.flush()
    changes = await story.show("listConfigChanges", "newest", "The newest of them", limit=1)
    story.at["audit_id"] = changes["items"][0]["id"]
    await story.show("undoConfigChange", "undone", "As it was before")


async def _configs(story: Recorder, noun: str, name: str, value: str) -> None:
    story.at["name"] = name
    body = {"value": value, "reason": "orders are money"}
    await story.show(f"set{noun}Config", "set", "As it is now", body)
    await story.show(f"get{noun}Config", "set", f"Set for the {noun.lower()}")
    listed = await story.show(f"list{noun}Configs", "first", "The first of them", limit=2)
    assert listed["items"]
    await story.show(f"unset{noun}Config", "unset", "The default applies")
    altered = {"configs": {name: value}, "reason": "orders are money"}
    await story.show(f"alter{noun}Configs", "altered", "As it is now", altered)


async def a_broker_is_added(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, partitions=12)
    fourth = _broker(rest, 4)
    fourth.request = msgspec.structs.replace(fourth.request, rack="r2")
    dry = await story.show("addBrokers", "dry_run", "What is open, and what would be moved", dry_run=True)
    assert dry["plans"]
    accepted = await story.show("addBrokers", "accepted", "It waits for its broker")
    story.at["operation_id"] = accepted["id"]
    await rest.clock.sleep_ms(600)
    await story.show("getOperation", "waits", "It waits for its broker")
    await fourth.register()
    await story.show("listBrokers", "waiting", "Three active, one waiting to be added")
    brokers.append(fourth)
    for broker in brokers:
        await broker.heartbeat()
        await broker.report_preflight()
    for _ in range(8):
        await rest.clock.sleep_ms(250)
        await _beat(brokers)
    await story.show("listMoves", "moving", "What is being copied", limit=1)
    assert (await plans.ended(rest, brokers, accepted["id"]))["state"] == "succeeded"
    await story.show("getOperation", "done", "It is done")
    await story.show("listOperations", "one", "One that is done")


async def a_broker_dies(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, assignments=[[3, 1, 2]])
    await _fence(rest, brokers, 3)
    await story.show("listAlarms", "broker_down", "A broker is down")
    await rest.outbox.flush()
    rows = await story.show("listAudit", "failover", "A failover", entity="partition", limit=1)
    await story.show("getAuditRow", "failover", "A failover", audit_id=rows["items"][0]["id"])
    await story.show("verifyAudit", "whole", "The chain is whole", cluster="prod")
    await story.show(
        "getAssignment", "now", "The placement at a time", as_of=timestamp(rest.clock.now_wall_ms())
    )
    await story.show("electPreferredLeaders", "refused", "One is not in sync yet")
    brokers[2] = _broker(rest, 3)
    await brokers[2].register()
    await _beat(brokers)
    (state,) = plans.partitions(rest)
    await plans.report(rest, brokers, state, size_bytes=SIZE_BYTES, isr=(1, 2, 3))
    await story.show("electLeader", "dry_run", "The partition after the election", dry_run=True)
    await story.show("electLeader", "elected", "The preferred leader leads")


async def all_have_their_leaders(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, partitions=3)
    await story.show("demoteBroker", "dry_run", "What would move", dry_run=True)
    demotion = await story.show("demoteBroker", "accepted", "Its leaderships are moved")
    await plans.ended(rest, brokers, demotion["id"])
    await story.show("returnBroker", "dry_run", "The broker as it would be", dry_run=True)
    await story.show("returnBroker", "done", "It may lead again")
    await story.show("electPreferredLeaders", "dry_run", "Who would lead", dry_run=True)
    await story.show("electPreferredLeaders", "done", "All have theirs back")
    await story.show("changeBroker", "cordoned", "It gets no new replicas")


async def a_partition_without_a_leader(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, assignments=[[3, 1, 2]], configs={MINIMUM: "1"})
    await rest.create_topic("payments", assignments=[[1, 2, 3]], partitions=1)
    await _made(rest, brokers)
    await _fence(rest, brokers, 1)
    await _fence(rest, brokers, 1, 2)
    await _fence(rest, brokers, 1, 2, 3)
    brokers[:2] = [_broker(rest, 1), _broker(rest, 2)]
    for broker, end in zip(brokers, (38, 30), strict=False):
        await broker.register()
        await _beat([broker])
        await _tell_log_end(rest, broker, end)
    await story.show("getPartition", "leaderless", "No leader, and why")
    await story.show("listPartitionsOfCluster", "worst_first", "One without a leader first", limit=2)
    await story.show("previewLoss", "two_left", "Two of three answer; the last leader is lost")


async def _tell_log_end(rest: Rest, broker: Broker, end: int) -> None:
    state = next(one for one in plans.partitions(rest) if one.topic == "orders")
    log_end = ReplicaLogEnd(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=end - 4,
        epochs=((0, 0),),
    )
    request = LagReport(
        broker_id=broker.broker_id, broker_epoch=BrokerEpoch(broker.broker_epoch), log_ends=(log_end,)
    )
    await rest.engine.submit("prod", Report(wall_ms=0, request=request))


async def a_reassignment_by_hand(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story, 4)
    await _orders(story, brokers)
    await story.show("assignPartition", "dry_run", "What would be copied", dry_run=True)
    moved = await story.show("assignPartition", "accepted", "It is on its way")
    story.at["operation_id"] = moved["id"]
    await _beat(brokers)
    await _report(rest, brokers, SIZE_BYTES // 2)
    await story.show("listReassignments", "moving", "Half of it is copied")
    await story.show("changeOperation", "throttled", "It copies slower now")
    await story.show("cancelOperation", "dry_run", "As it would be", dry_run=True)
    await _fence(rest, brokers, 4)
    await story.show("listReassignments", "blocked", "Its target is down")
    await story.show("cancelReassignment", "dry_run", "The partition as it would be", dry_run=True)
    await story.show("cancelReassignment", "done", "The original replicas are back")
    await story.show("removeBroker", "removed", "It held nothing", broker_id=4)


async def a_plan(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story, 4)
    await _orders(story, brokers)
    story.at["broker_id"] = 3
    await story.show("drainBroker", "dry_run", "What emptying broker 3 takes", dry_run=True)
    await story.show("putPolicy", "new", "It is new")
    await story.show("putPolicy", "replaced", "It is another now", if_match=True)
    await story.show("getPolicy", "one", "As it was written")
    await story.show("listPolicies", "one", "One policy")
    await story.show("deletePolicy", "dry_run", "What would be deleted", dry_run=True)
    await story.show("makePlan", "dry_run", "The same, and it is not kept", dry_run=True)
    plan = await story.show("makePlan", "drain", "What emptying broker 3 takes")
    story.at["plan_id"] = plan["id"]
    await story.show("getPlan", "drain", "As it was made")
    await story.show("listPlans", "one", "It waits to be executed")
    await story.show("listPlannedMoves", "one", "The one that pays most comes first")
    await story.show("deletePlan", "dry_run", "What would be deleted", dry_run=True)
    story.actor = "bob"
    await story.show("approvePlan", "approved", "A second person has looked at it", if_match=True)
    story.actor = "alice"
    await story.show("executePlan", "dry_run", "Nothing has drifted", dry_run=True)
    night = {"not_before": "2023-11-15T02:00:00Z", "reason": "store3 is to be replaced"}
    scheduled = await story.show("executePlan", "scheduled", "It begins in the night", night)
    await story.ask("cancelOperation", operation_id=scheduled["id"])
    await rest.clock.sleep_ms(1_000)
    story.at["plan_id"] = (await plans.made(rest, plan["goal"]))["id"]
    execution = await story.show("executePlan", "accepted", "It is on its way")
    story.at["operation_id"] = execution["id"]
    await rest.clock.sleep_ms(1_000)
    await _beat(brokers)
    await _report(rest, brokers, SIZE_BYTES // 2)
    await story.show("listMoves", "half", "Half of it is copied")
    await story.show("pauseOperation", "paused", "It begins nothing new")
    await story.show("resumeOperation", "resumed", "It continues")
    await plans.ended(rest, brokers, execution["id"])
    await _report(rest, brokers)
    await rest.outbox.flush()
    await story.show("getReceipt", "kept", "The minimum was kept all the time")
    await story.show("undoOperation", "dry_run", "What that would copy", dry_run=True)
    undo = await story.show("undoOperation", "accepted", "What it moved goes back")
    await story.show("cancelOperation", "accepted", "It is undone", operation_id=undo["id"])
    await plans.ended(rest, brokers, undo["id"])
    await story.show("drainBroker", "accepted", "Broker 3 is being emptied")


def _coordinator(rest: Rest, number: int) -> Coordinator:
    return Coordinator(rest, 1_000 + number, host=f"desk{number}", port=9092, rack=f"r{number}")


async def coordinators_and_groups(story: Recorder) -> None:
    rest = story.rest
    await _orders(story, await _form(story))
    first, second = (_coordinator(rest, number) for number in (1, 2))
    await first.register()
    await second.register()
    await story.ask("admitCoordinators", {"coordinator_ids": [1001]})
    await first.poll()
    await first.heartbeat()
    while not rest.engine.cluster("prod").image.shards:
        await rest.clock.sleep_ms(100)
    await story.show("listCoordinators", "two", "One active, one waiting to be admitted")
    await story.show("getCoordinator", "active", "An active coordinator")
    await story.show(
        "admitCoordinators", "admitted", "It is active once it has heard of it", {"coordinator_ids": [1002]}
    )
    await story.show("changeCoordinator", "draining", "It gives its shards away")
    member = MemberDetail(
        member_id="billing-app-3f0b2c1e",
        instance_id=None,
        client_id="billing-app",
        host="/10.0.0.12",
        assigned=(("orders", 0),),
    )
    times_ms = tuple(WALL_START_MS + 4_200 * number // 249 for number in range(20_650))
    rest.groups.logs = {("orders", 0): (100_000, times_ms)}
    rest.groups.add("billing", member, orders=120_400)
    rest.groups.add("search", orders=120_400)
    joined = RebalanceCause(
        "joined",
        "member billing-app-3f0b2c1e joined from host /10.0.0.12",
        WALL_START_MS,
        member.member_id,
    )
    rebalance = GroupRebalance(
        group_id="billing",
        generation_id=1,
        began_ms=WALL_START_MS,
        ended_ms=WALL_START_MS + 3_092,
        reason="member billing-app-3f0b2c1e joined from host /10.0.0.12",
        assigned_ms=WALL_START_MS + 3_092,
        assignor="range",
        causes=(joined,),
        causes_total=1,
        to_move=1,
        moved=1,
        moves=(MovedPartitions("", member.member_id, 1, -1, (MovedPartition("orders", 0, -1),)),),
        paused=0,
    )
    lag = GroupLag("billing", 1, 250, 4_200, 1_300, (TopicLag("orders", 250, 4_200),))
    await first.heartbeat(groups=GroupNews(rebalances=(rebalance,), lags=(lag,)))
    await story.show("listRecords", "newest", "The newest two; one is a deletion by its key", limit=2)
    await story.show("listGroups", "two", "One that reads, one without members")
    await story.show("getGroup", "behind", "A group with one member, 250 records behind")
    await story.show("listGroupRebalances", "joined", "Its first member got its first partition")
    await story.show("listGroupConfigs", "defaults", "Nothing is set for it alone")
    longer = {"configs": {"consumer.session.timeout.ms": "60 s"}, "reason": "it works long"}
    await story.show("alterGroupConfigs", "longer", "Its members may be silent for a minute", longer)
    story.at["group_id"] = "search"
    await story.show("resetGroupOffsets", "earliest", "Everything is read again")
    await story.show("deleteRecords", "deleted", "The first records are gone", {"before_offset": 101_200})
    await story.show("deleteGroup", "deleted", "The group as it was")
    await rest.clock.sleep_ms(30_000)
    await story.show("removeCoordinator", "removed", "The coordinator as it was", coordinator_id=1002)


async def transactions(story: Recorder) -> None:
    rest = story.rest
    await _orders(story, await _form(story))
    await hang(rest, _coordinator(rest, 1), producer_id=3_000)
    await report_open(rest, (3_000, 10), (4_000, 60))
    began_ms = rest.clock.now_wall_ms() - 65_000
    rest.transactions.add("payments-1", ("orders", 0), started_ms=began_ms, timeout_ms=900_000)
    rest.transactions.add("payments-2", started_ms=None, state="complete_commit")
    await story.show("listTransactions", "two", "One is open, and one that hangs is before it", sort="-age")
    await story.show("getTransaction", "open", "It is open, and readers wait for another one")
    await story.show("abortTransaction", "dry_run", "What it would free", dry_run=True)
    await story.show("abortTransaction", "aborted", "Its producer is fenced, and its end is decided")
    rest.transactions.opened["orders", 0] = [
        OpenProducer(
            producer_id=3_000, producer_epoch=3, coordinator_epoch=0, first_offset=10, last_timestamp_ms=None
        )
    ]
    await story.show("endTransaction", "dry_run", "What it would free", {"producer_id": 3_000}, dry_run=True)
    await story.show("endTransaction", "ended", "Readers go on", {"producer_id": 3_000})


async def who_may_do_what(story: Recorder) -> None:
    await story.rest.post("/clusters", {"name": "prod", "configs": {AUTHORIZER: STANDARD_AUTHORIZER}})
    reads = {
        "resource_type": "topic",
        "resource_name": "payments",
        "pattern_type": "prefixed",
        "principal": "User:billing",
        "operation": "read",
    }
    await story.ask("addAcls", {"bindings": [reads]})
    await story.show("addAcls", "added", "The first was there already")
    await story.show("listAcls", "two", "A prefix of topics, and a group")
    denied = reads | {"principal": "User:*", "host": "10.0.0.7", "operation": "all", "permission": "deny"}
    await story.ask("addAcls", {"bindings": [denied]})
    about: dict[str, Any] = {
        name: reads[name] for name in ("principal", "operation", "resource_type", "resource_name")
    }
    summary = "A denial is stronger than what allows it"
    await story.show("explainAcls", "denied", summary, host=CLIENT_ADDRESS[0], **about)
    create: dict[str, Any] = {
        "principal": "User:grafana",
        "request": "POST /clusters/prod/topics",
        "resource_name": "orders",
    }
    summary = "A request over REST: neither a role nor a binding gives it"
    await story.show("explainAcls", "request", summary, **create)
    await story.show("removeAcls", "removed", "Two matched the filter")
    await story.show("putUser", "new", "It is new")
    await story.show("putUser", "replaced", "Its password is another")
    await story.show("listUsers", "one", "One user")
    await story.show("getUser", "both", "It may log in by both mechanisms")
    await story.show("deleteUser", "deleted", "The user as it was")
    await story.show("alterQuotas", "set", "As they are now")
    await story.show("listQuotas", "one", "One user's")


async def what_was_verified(story: Recorder) -> None:
    await _orders(story, await _form(story))
    await story.show("recordVerification", "dry_run", "What would be kept", dry_run=True)
    kept = await story.show("recordVerification", "damaged", "A bit has flipped")
    story.at["verification_id"] = kept["id"]
    await story.show("listVerifications", "one", "A bit has flipped")
    await story.show("getVerification", "damaged", "A bit has flipped")
    await story.show("listFindings", "one", "On broker 3, in one batch")


async def a_log_that_was_set_aside(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    topic_id = "Zk1lV0pCTEq4nY6mXw2v3A"
    log = SetAsideLog(
        directory=f"later-0.{topic_id}",
        topic_id=topic_id,
        topic="later",
        partition=0,
        why="not in the controller's full state",
        since_ms=WALL_START_MS,
        leader_epoch=LeaderEpoch(3),
        log_start_offset=0,
        log_end_offset=12,
        size_bytes=900,
        is_whole=True,
    )
    for broker in brokers:
        logs = (log,) if broker is brokers[2] else ()
        report = LagReport(
            broker_id=broker.broker_id, broker_epoch=BrokerEpoch(broker.broker_epoch), set_aside=logs
        )
        await rest.engine.submit("prod", Report(request=report, wall_ms=0))
    await story.show("listSetAsideLogs", "one", "A log of a topic that the controller does not know")
    await story.show("bringBackTopics", "done", "The topic is back")


async def an_hour_in_samples(story: Recorder) -> None:
    rest = story.rest
    brokers = await _form(story)
    await _orders(story, brokers, partitions=3)
    coordinator = _coordinator(rest, 1)
    await coordinator.register()
    await story.ask("admitCoordinators", {"coordinator_ids": [1001]})
    await coordinator.poll()
    for sample in range(1, SAMPLES_SHOWN + 1):
        for second in range(0, SAMPLE_MS, 1_000):
            requests = 90 * (SAMPLE_MS * sample + second) // 1_000
            for broker in brokers:
                broker.load = ProcessLoad(connections=12 + sample % 3, requests=requests)
                broker.disk = DiskSpace(free_bytes=(400 << 30) - (sample << 26), total_bytes=500 << 30)
                if broker.broker_id != 1 or sample not in SAMPLES_WITHOUT_BROKER_1:
                    await broker.heartbeat()
            lag = GroupLag(group_id="billing", records=250 * (sample % 4), ms=900 * (sample % 4))
            await coordinator.heartbeat(groups=GroupNews(lags=(lag,)))
            await rest.clock.sleep_ms(1_000)
        for state in plans.partitions(rest):
            passed = SIZE_BYTES // 40 * sample * sample
            await plans.report(rest, brokers, state, size_bytes=SIZE_BYTES + passed, isr=(), bytes_in=passed)
    await story.show("getClusterHistory", "minutes", "The first minutes of a controller")
    await story.show("getBrokerHistory", "gap", "It was not heard for a while")
    await story.show("getTopicHistory", "minutes", "A topic that is written and not read")
    await story.show("getGroupHistory", "minutes", "A group that keeps up")
    await story.show("getHeatMap", "even", "One topic, evenly")


async def alarms_are_told(story: Recorder) -> None:
    await _form(story)
    await story.show("putWebhook", "new", "It is new; its secret is shown this once", name="pager")
    await story.show("putWebhook", "changed", "It has changed, and its secret stays", if_match=True)
    await story.show("getWebhook", "one", "Nothing has happened yet")
    await story.show("listWebhooks", "one", "One webhook")
    await story.show("testWebhook", "dry_run", "Nothing is sent", dry_run=True)
    await story.show("deleteWebhook", "dry_run", "What would be deleted", dry_run=True)
    await story.show("addSilence", "dry_run", "What it would be", dry_run=True)
    silence = await story.show("addSilence", "broker", "Of one broker's alarm")
    await story.show("listSilences", "one", "One silence")
    await story.show("endSilence", "ended", "It has ended", silence_id=silence["id"])


STORIES: Final[tuple[Callable[[Recorder], Awaitable[None]], ...]] = (
    all_have_their_leaders,
    a_broker_dies,
    a_cluster_and_its_topics,
    a_topic_deleted_by_mistake,
    settings,
    a_broker_is_added,
    a_partition_without_a_leader,
    a_reassignment_by_hand,
    a_plan,
    coordinators_and_groups,
    transactions,
    who_may_do_what,
    what_was_verified,
    a_log_that_was_set_aside,
    an_hour_in_samples,
    alarms_are_told,
)
