"""What brokers forward of Kafka clients' administration: the same decisions, refusals and audit as REST's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admin_api.http.tokens import load_tokens
from admin_api.settings import ApiSettings
from admin_api.topics.names import NAME_WAIT_MS
from controller.core.events import Report
from controller.core.settings_table import TOPIC_SETTINGS
from springtide.contract.administration import (
    AdminCall,
    AdminOutcome,
    AdminRequest,
    AdminResponse,
    AlterConfigsCall,
    AlterReassignmentsCall,
    ConfigSource,
    ConfigsToAlter,
    ConfigsToDescribe,
    CreatePartitionsCall,
    CreateTopicsCall,
    DeleteRecordsCall,
    DeleteTopicsCall,
    DescribeConfigsCall,
    ElectLeadersCall,
    ListChange,
    PartitionsToCreate,
    ReassignmentWish,
    RecordsBefore,
    RecordsToDelete,
    ResourceKind,
    TopicToCreate,
    TopicToDelete,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.lag_report import LagReport, ReplicaLogEnd
from springtide.levels import CONSUMER_GROUPS, TRANSACTIONS
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.rest import Rest, controller, problem, silence, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

SECRET = "the-token-of-broker-1-0123456789"
TOKENS = load_tokens(file=None, environment=f"broker-1 broker {SECRET}")
HEADERS = {"authorization": f"Bearer {SECRET}"}
TOPIC, BROKER = ResourceKind.TOPIC, ResourceKind.BROKER
ACTOR = "unverified:ops-tool@10.1.2.3/kafka:1"


async def ask(rest: Rest, call: AdminCall, **changes: Any) -> AdminResponse:
    registered = rest.engine.cluster("prod").decided.brokers.get(1)
    request = AdminRequest(
        broker_id=1,
        broker_epoch=changes.pop("broker_epoch", 0 if registered is None else registered.broker_epoch),
        client_id=changes.pop("client_id", "ops-tool"),
        client_host="10.1.2.3",
        call=call,
    )
    cluster = changes.pop("cluster", "prod")
    response = await rest.client.post(
        f"/internal/clusters/{cluster}/brokers/1:administer", content=msgspec.json.encode(request), **changes
    )
    assert response.status_code == 200, response.text
    return msgspec.json.decode(response.content, type=AdminResponse)


async def outcomes(rest: Rest, call: AdminCall, **changes: Any) -> list[AdminOutcome]:
    response = await ask(rest, call, **changes)
    assert response.error == "none"
    return list(response.outcomes)


def codes(told: list[AdminOutcome]) -> list[int]:
    return [outcome.error_code for outcome in told]


def creation(*names: str, **fields: Any) -> CreateTopicsCall:
    options = {name: fields.pop(name) for name in ("validate_only", "wait_ms") if name in fields}
    values = {"partitions": 1, "replication_factor": 3} | fields
    return CreateTopicsCall(topics=tuple(TopicToCreate(name=name, **values) for name in names), **options)


async def test_topics_are_created_each_alone_and_audited_as_the_clients(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        dry = await outcomes(rest, creation("orders", validate_only=True))
        assert codes(dry) == [0]
        assert dry[0].created is not None and dry[0].created.topic_id is None
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 404
        assert await rest.recorded(cause="create_topic") == []
        told = await outcomes(rest, creation("orders", "no/name", "payments", configs={"retention.ms": "5"}))
        assert codes(told) == [0, 17, 0]
        view = (await rest.client.get("/clusters/prod/topics/orders")).json()
        topic = ConfigsToDescribe(kind=ResourceKind.TOPIC, name="orders")
        (described,) = await outcomes(rest, DescribeConfigsCall(resources=(topic,)))
        assert told[0].configs == described.configs != ()  # KIP-525
        assert {config.name for config in dry[0].configs} == {config.name for config in described.configs}
        created = told[0].created
        assert created is not None
        assert (created.topic_id, created.partitions, created.replication_factor) == (view["topic_id"], 1, 3)
        rows = await rest.recorded(cause="create_topic")
        assert [(row["topic"], row["actor"], row["outcome"]["outcome"]) for row in rows] == [
            ("payments", ACTOR, "succeeded"),
            ("orders", ACTOR, "succeeded"),
        ]
        (change,) = await rest.recorded(cause="topic_created", topic="orders", entity="topic")
        assert change["actor"] == ACTOR


async def test_a_kind_of_resource_of_a_later_release_is_refused_and_taken_for_no_other(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        later = ConfigsToAlter(kind=ResourceKind.UNKNOWN, name="", configs={"retention.ms": "5"})
        (outcome,) = await outcomes(rest, AlterConfigsCall(resources=(later,)))
        assert outcome.error_code == 42
        described = ConfigsToDescribe(kind=ResourceKind.UNKNOWN, name="1")
        assert codes(await outcomes(rest, DescribeConfigsCall(resources=(described,)))) == [42]


async def test_a_coordinator_sends_its_clients_requests_as_brokers_do(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        coordinator = Coordinator(rest, 1001)
        registered = await coordinator.register()

        async def create(epoch: int) -> AdminResponse:
            request = AdminRequest(
                broker_id=1001,
                broker_epoch=BrokerEpoch(epoch),
                client_id="ops-tool",
                client_host="10.1.2.3",
                call=creation("orders"),
            )
            answer: AdminResponse = await coordinator.ask("administer", request, AdminResponse)
            return answer

        assert (await create(registered.broker_epoch + 1)).error == "stale_broker_epoch"
        assert codes(list((await create(registered.broker_epoch)).outcomes)) == [0]
        (row,) = await rest.recorded(cause="create_topic")
        assert row["actor"] == "unverified:ops-tool@10.1.2.3/kafka:1001"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 36),
        ({"replication_factor": 9}, 38),
        ({"replication_factor": 0}, 38),
        ({"partitions": 0}, 37),
        ({"partitions": -1, "replication_factor": -1, "assignments": ((1, 1),)}, 39),
        ({"partitions": -1, "replication_factor": -1, "assignments": ((),)}, 39),
        ({"configs": {"retention.hours": "1"}}, 40),
        ({"configs": {"retention.ms": "soon"}}, 40),
    ],
)
async def test_a_refusal_has_kafkas_code_and_our_words(
    zookeeper: MemoryZooKeeper, fields: dict[str, Any], code: int
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        name = "orders" if not fields else "payments"
        (told,) = await outcomes(rest, creation(name, **fields))
        assert told.error_code == code
        assert told.message
        assert told.created is None
        assert (await rest.client.get("/clusters/prod/topics/payments")).status_code == 404


async def test_partitions_are_added_and_topics_deleted_by_name_or_id(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        created = await rest.create_topic()
        more = CreatePartitionsCall(
            topics=(
                PartitionsToCreate(topic="orders", count=5, assignments=((1, 2, 3), (2, 3, 1))),
                PartitionsToCreate(topic="orders", count=2),
                PartitionsToCreate(topic="nobody", count=2),
                PartitionsToCreate(topic="orders", count=0),
            )
        )
        assert codes(await outcomes(rest, more)) == [0, 37, 3, 37]
        view = (await rest.client.get("/clusters/prod/topics/orders/partitions/4")).json()
        assert view["replicas"] == [2, 3, 1]
        row = (await rest.recorded(cause="add_partitions"))[-1]
        operation = (await rest.client.get(f"/operations/{row['operation_id']}")).json()
        assert (operation["kind"], operation["actor"]) == ("partitions_add", ACTOR)
        gone = DeleteTopicsCall(
            topics=(
                TopicToDelete(topic_id=created["topic_id"]),
                TopicToDelete(name="orders"),
                TopicToDelete(topic_id="A" * 22),
                TopicToDelete(name="payments"),
            )
        )
        named = await rest.create_topic("payments")
        told = await outcomes(rest, gone)
        assert codes(told) == [0, 3, 100, 0]
        assert [(one.topic, one.topic_id) for one in told] == [
            ("orders", created["topic_id"]),
            ("orders", None),
            (None, None),
            ("payments", named["topic_id"]),
        ]
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 404


async def test_a_topic_that_is_guarded_is_deleted_by_no_client(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        guard = {"deletion.protected": "true"}
        created = await rest.create_topic(configs=guard)
        by_id, by_name = TopicToDelete(topic_id=created["topic_id"]), TopicToDelete(name="orders")
        told = await outcomes(rest, DeleteTopicsCall(topics=(by_id, by_name)))
        assert codes(told) == [73, 73], "TOPIC_DELETION_DISABLED"
        assert "deletion.protected=true" in (told[0].message or "")
        own = "/clusters/prod/topics/orders"
        for query in ("", "?dry_run=true"):
            refused = await rest.client.delete(own + query)
            assert problem(refused) == (409, "deletion_protected")
            assert refused.json()["kafka_error"] == {"code": 73, "name": "TOPIC_DELETION_DISABLED"}
        (row, *_) = await rest.recorded(kind="request", cause="delete_topic")
        assert row["outcome"]["code"] == "deletion_protected"
        off = await rest.client.put(f"{own}/configs/deletion.protected", json={"value": "false"})
        assert off.status_code == 200
        assert (await rest.client.delete(own)).status_code == 202


async def test_deletions_are_answered_when_all_leaders_have_stopped_or_say_that_it_is_not_known(
    zookeeper: MemoryZooKeeper,
) -> None:
    """All are begun before the first is waited for; a creation waits as long, and names what it waits for."""
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        for name in ("orders", "payments"):
            await rest.create_topic(name)
        gone = DeleteTopicsCall(topics=(TopicToDelete(name="orders"), TopicToDelete(name="payments")))
        began_ms = rest.clock.now_mono_ms()
        assert codes(await outcomes(rest, gone)) == [7, 7]
        assert NAME_WAIT_MS <= rest.clock.now_mono_ms() - began_ms < 2 * NAME_WAIT_MS
        assert codes(await outcomes(rest, gone)) == [7, 7], "they are gone, but not so that all know it"
        (refused,) = await outcomes(rest, creation("orders"))
        assert (refused.error_code, "is being deleted" in (refused.message or "")) == (36, True)
        async with speaking(rest, brokers):
            assert codes(await outcomes(rest, gone)) == [3, 3], "as if it had been asked for once"
            assert codes(await outcomes(rest, creation("orders"))) == [0]


async def test_a_creation_is_answered_when_clients_can_use_the_topic(zookeeper: MemoryZooKeeper) -> None:
    """The brokers' words come every 100 ms here. One wait serves all that a call names."""
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        async with speaking(rest, brokers):
            call = creation("orders", "no/name", "payments", wait_ms=5_000)
            assert codes(await outcomes(rest, call)) == [0, 17, 0]
            assert rest.engine.drivers.of("prod").machine.not_serving(_topic_ids(rest), _sequence(rest)) == ()
            grown = CreatePartitionsCall(topics=(PartitionsToCreate(topic="orders", count=4),), wait_ms=5_000)
            assert codes(await outcomes(rest, grown)) == [0]
            assert rest.engine.drivers.of("prod").machine.not_serving(_topic_ids(rest), _sequence(rest)) == ()


async def test_a_creation_that_takes_longer_than_the_client_waits_is_told_so_and_goes_on(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        began_ms = rest.clock.now_mono_ms()
        told = await outcomes(rest, creation("orders", "no/name", wait_ms=3_000))
        assert codes(told) == [7, 17]
        assert 3_000 <= rest.clock.now_mono_ms() - began_ms < 3_100
        assert told[0].message == (
            "'orders' is still being created: the change is stored; 1, 2, 3 may not have applied it yet"
        )
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 200
        grown = CreatePartitionsCall(topics=(PartitionsToCreate(topic="orders", count=4),), wait_ms=100)
        assert codes(await outcomes(rest, grown)) == [7]
        rows = await rest.recorded(cause="create_topic")
        assert [row["outcome"]["outcome"] for row in rows] == ["succeeded"]


def _topic_ids(rest: Rest) -> list[str]:
    return list(rest.engine.cluster("prod").image.topics)


def _sequence(rest: Rest) -> int:
    """Of the last change that made something; what is written later confirms it."""
    return max(rest.engine.cluster("prod").image.announced_at.values())


async def test_the_deletion_of_records_is_written_down_before_a_broker_may_do_it(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        call = DeleteRecordsCall(
            topics=(
                RecordsToDelete(
                    topic="orders",
                    partitions=(
                        RecordsBefore(partition=0, before_offset=5),
                        RecordsBefore(partition=1, before_offset=-1),
                    ),
                ),
                RecordsToDelete(topic="nobody", partitions=(RecordsBefore(partition=0, before_offset=5),)),
            )
        )
        assert codes(await outcomes(rest, call)) == [0, 3]
        refused, permitted = await rest.recorded(kind="request", cause="delete_records")
        assert (permitted["actor"], permitted["entity_id"]) == (ACTOR, "orders")
        assert permitted["after"] == {"before_offsets": {"0": 5, "1": -1}}
        assert permitted["outcome"]["detail"] == "permitted; the leader deletes"
        assert (refused["entity_id"], refused["outcome"]["outcome"]) == ("nobody", "refused")


async def test_a_factor_that_may_not_change_is_kept(zookeeper: MemoryZooKeeper) -> None:
    """KIP-860."""
    async with controller(zookeeper) as rest:
        await rest.form(brokers=4)
        await rest.create_topic(partitions=1, replication_factor=2, assignments=[[1, 2]])
        told = []
        for replicas in ((1, 2, 4), (1, 4), None):
            wish = ReassignmentWish(topic="orders", partition=0, replicas=replicas)
            strict = AlterReassignmentsCall(partitions=(wish,), may_change_factor=False)
            told += await outcomes(rest, strict)
        assert codes(told) == [38, 0, 0]
        assert told[0].message == "the replication factor of orders-0 is 2, not 3"


async def test_moves_have_one_operation_and_cancellations_none(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(brokers=4)
        await rest.create_topic(partitions=2, replication_factor=2, assignments=[[1, 2], [2, 3]])
        wishes = (
            ReassignmentWish(topic="orders", partition=0, replicas=(1, 4)),
            ReassignmentWish(topic="orders", partition=1, replicas=(3, 4)),
            ReassignmentWish(topic="orders", partition=7, replicas=(3, 4)),
            ReassignmentWish(topic="orders", partition=0, replicas=(1, 3)),
            ReassignmentWish(topic="nobody", partition=0, replicas=None),
        )
        told = await outcomes(rest, AlterReassignmentsCall(partitions=wishes))
        assert codes(told) == [0, 0, 3, 42, 3]
        (row,) = await rest.recorded(cause="assign_partitions")
        assert (row["actor"], row["outcome"]["outcome"]) == (ACTOR, "succeeded")
        operation = (await rest.client.get(f"/operations/{row['operation_id']}")).json()
        assert (operation["kind"], operation["state"]) == ("reassignment", "running")
        assert operation["progress"]["moves_total"] == 2
        (one, two) = (await rest.client.get("/clusters/prod/reassignments")).json()["items"]
        assert {one["operation_id"], two["operation_id"]} == {operation["id"]}
        undo = AlterReassignmentsCall(
            partitions=(
                ReassignmentWish(topic="orders", partition=0, replicas=None),
                ReassignmentWish(topic="orders", partition=1, replicas=(2, 9)),
            )
        )
        told = await outcomes(rest, undo)
        assert codes(told) == [0, 39]
        (cancelled,) = await rest.recorded(cause="cancel_reassignments")
        assert cancelled["operation_id"] is None
        (refused, _) = await rest.recorded(cause="assign_partitions")
        assert refused["outcome"]["detail"] == "1 of 1 partitions were refused"
        again = AlterReassignmentsCall(
            partitions=(ReassignmentWish(topic="orders", partition=0, replicas=None),)
        )
        assert codes(await outcomes(rest, again)) == [85]


async def test_settings_are_altered_and_described_with_every_layer(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        alter = AlterConfigsCall(
            resources=(
                ConfigsToAlter(kind=TOPIC, name="orders", configs={"retention.ms": "1000"}),
                ConfigsToAlter(kind=TOPIC, name="orders", configs={"retention.hours": "1"}),
                ConfigsToAlter(kind=TOPIC, name="nobody", configs={"retention.ms": "1000"}),
                ConfigsToAlter(kind=BROKER, name="", configs={"log.retention.ms": "2000"}),
                ConfigsToAlter(kind=BROKER, name="2", configs={"leader.replication.throttled.rate": "9"}),
                ConfigsToAlter(kind=BROKER, name="one", configs={"num.partitions": "2"}),
                ConfigsToAlter(kind=BROKER, name="9", configs={}),
            )
        )
        assert codes(await outcomes(rest, alter)) == [0, 40, 3, 0, 0, 42, 42]
        describe = DescribeConfigsCall(
            resources=(
                ConfigsToDescribe(kind=TOPIC, name="orders", names=("retention.ms", "nothing")),
                ConfigsToDescribe(kind=BROKER, name="2"),
                ConfigsToDescribe(kind=TOPIC, name="nobody"),
            )
        )
        topic, broker, nobody = await outcomes(rest, describe)
        (retention,) = topic.configs
        assert (retention.value, retention.source, retention.type) == ("1000", "topic", "long")
        assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
            ("retention.ms", "1000", "topic"),
            ("log.retention.ms", "2000", "cluster"),
            ("log.retention.ms", "604800000", "default"),
        ]
        of_broker = {config.name: config for config in broker.configs}
        assert of_broker["leader.replication.throttled.rate"].source == "broker"
        assert of_broker["log.retention.ms"].value == "2000"
        policy = of_broker["log.cleanup.policy"]
        assert (policy.type, policy.is_read_only) == ("list", False)
        assert (nobody.error_code, nobody.configs) == (3, ())
        rows = await rest.recorded(cause="alter_configs", entity="broker")
        assert [(row["entity_id"], row["actor"]) for row in rows] == [("2", ACTOR)]


async def test_lists_are_appended_to_and_subtracted_from(zookeeper: MemoryZooKeeper) -> None:
    """As Kafka's ConfigurationControlManager: from the value that applies, each item once (KIP-339)."""
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()

        async def change(
            name: str, *, holder: str = "orders", kind: ResourceKind = TOPIC, **items: Any
        ) -> int:
            one = ConfigsToAlter(kind=kind, name=holder, configs={name: ListChange(**items)})
            (outcome,) = await outcomes(rest, AlterConfigsCall(resources=(one,)))
            return outcome.error_code

        async def own() -> dict[str, str]:
            configs: dict[str, str] = (await rest.client.get("/clusters/prod/topics/orders")).json()[
                "configs"
            ]
            return configs

        policy, replicas = "cleanup.policy", "leader.replication.throttled.replicas"
        assert await change(policy, append=("compact",)) == 0
        assert await change(policy, append=("compact",)) == 0
        assert await own() == {policy: "compact,delete"}
        assert await change(policy, subtract=("delete", "never")) == 0
        assert await own() == {policy: "compact"}
        assert await change(policy, subtract=("compact",)) == 40, "no policy is left"
        assert await change(policy, append=("archive",)) == 40
        assert await change(replicas, append=("0:1", "0:2")) == 0
        assert await change(replicas, subtract=("0:1",)) == 0
        assert await own() == {policy: "compact", replicas: "0:2"}
        for no_list in ("retention.ms", "compression.type", "retention.hours"):
            assert await change(no_list, append=("1",)) == 40
        assert await change("log.cleanup.policy", holder="", kind=BROKER, append=("compact",)) == 0
        assert (await rest.client.get("/clusters/prod")).json()["configs"] == {
            "log.cleanup.policy": "compact,delete"
        }


async def test_a_coordinators_settings_are_the_clusters_and_are_not_altered_under_its_id(
    zookeeper: MemoryZooKeeper,
) -> None:
    """Tools ask for the settings of each node that Metadata lists."""
    async with controller(zookeeper) as rest:
        await rest.form()
        await Coordinator(rest, 1001).register()
        asked = tuple(ConfigsToDescribe(kind=BROKER, name=name) for name in ("1001", "", "1002"))
        of_coordinator, of_all, of_nobody = await outcomes(rest, DescribeConfigsCall(resources=asked))
        assert of_coordinator.configs == of_all.configs != ()
        assert codes([of_coordinator, of_all, of_nobody]) == [0, 0, 42]
        wanted = ConfigsToAlter(kind=BROKER, name="1001", configs={"num.partitions": "3"})
        assert codes(await outcomes(rest, AlterConfigsCall(resources=(wanted,)))) == [42]


async def test_alter_configs_unsets_what_it_does_not_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={"retention.ms": "1000", "flush.ms": "5"})

        def replace(dry_run: bool, **configs: str) -> AlterConfigsCall:
            named: dict[str, str | ListChange | None] = {
                name.replace("_", "."): value for name, value in configs.items()
            }
            one = ConfigsToAlter(kind=TOPIC, name="orders", configs=named, replaces=True)
            return AlterConfigsCall(resources=(one,), validate_only=dry_run)

        async def own() -> dict[str, str]:
            view = (await rest.client.get("/clusters/prod/topics/orders")).json()
            configs: dict[str, str] = view["configs"]
            return configs

        before = await own()
        assert codes(await outcomes(rest, replace(True, flush_ms="7"))) == [0]
        assert codes(await outcomes(rest, replace(False, flush_ms="soon"))) == [40]
        assert await own() == before
        assert codes(await outcomes(rest, replace(False, flush_ms="7"))) == [0]
        assert await own() == {"flush.ms": "7"}
        for _ in range(2):
            assert codes(await outcomes(rest, replace(False))) == [0]
            assert await own() == {}


@pytest.mark.parametrize("replaces", [True, False])
async def test_what_clients_may_do_is_not_changed_by_a_client(
    replaces: bool, zookeeper: MemoryZooKeeper
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        path = "/clusters/prod/configs/super.users"
        assert (await rest.client.put(path, json={"value": "User:ann"})).status_code == 200

        def change(**configs: str | None) -> AlterConfigsCall:
            named: dict[str, str | ListChange | None] = {
                name.replace("_", "."): value for name, value in configs.items()
            }
            one = ConfigsToAlter(kind=BROKER, name="", configs=named, replaces=replaces)
            return AlterConfigsCall(resources=(one,))

        for value in ("User:mallory", None):
            assert codes(await outcomes(rest, change(super_users=value, num_partitions="3"))) == [40]
        assert codes(await outcomes(rest, change(num_partitions="3"))) == [0]
        configs = (await rest.client.get("/clusters/prod")).json()["configs"]
        assert configs == {"num.partitions": "3", "super.users": "User:ann"}


async def test_refusals_speak_of_what_kafkas_tools_have(zookeeper: MemoryZooKeeper) -> None:
    rest_only = ("GET /", "PATCH", "errors says", "if_not_exists", "replication_factor", "If-Match", "`")
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        told = [
            *await outcomes(rest, creation("orders", "no/name")),
            *await outcomes(rest, creation("a", replication_factor=0)),
            *await outcomes(rest, creation("b", replication_factor=9)),
            *await outcomes(rest, creation("c", partitions=0)),
            *await outcomes(rest, creation("d", configs={"retention.hours": "1"})),
            *await outcomes(rest, DeleteTopicsCall(topics=(TopicToDelete(name="nobody"),))),
        ]
        assert all(one.error_code for one in told)
        for one in told:
            assert one.message
            assert [word for word in rest_only if word in one.message] == []


async def test_a_minimum_above_the_replication_factor_is_kafkas_invalid_config(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        too_high: dict[str, str | None] = {"min.insync.replicas": "3"}
        for dry_run in (True, False):
            create = creation("high", replication_factor=2, configs=too_high, validate_only=dry_run)
            (refused,) = await outcomes(rest, create)
            assert (refused.error_code, refused.message) == (
                40,
                "min.insync.replicas must be at most the replication factor, 2, not 3; "
                "lower it, or give the topic more replicas",
            )
        await outcomes(rest, creation("orders", replication_factor=2))
        one = ConfigsToAlter(kind=TOPIC, name="orders", configs={**too_high})
        alter = AlterConfigsCall(resources=(one,))
        assert codes(await outcomes(rest, alter)) == [40]
        await rest.create_topic("money", configs=too_high)
        shrink = ReassignmentWish(topic="money", partition=0, replicas=(1, 2))
        assert codes(await outcomes(rest, AlterReassignmentsCall(partitions=(shrink,)))) == [38]


async def test_a_default_minimum_above_the_factor_is_described_as_the_clusters(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        alter = ConfigsToAlter(kind=BROKER, name="", configs={"min.insync.replicas": "5"})
        assert codes(await outcomes(rest, AlterConfigsCall(resources=(alter,)))) == [0]
        (created,) = await outcomes(rest, creation("orders", replication_factor=2))
        describe = ConfigsToDescribe(kind=TOPIC, name="orders", names=("min.insync.replicas",))
        (described,) = await outcomes(rest, DescribeConfigsCall(resources=(describe,)))
        for configs in (created.configs, described.configs):
            (minimum,) = [config for config in configs if config.name == "min.insync.replicas"]
            assert (minimum.value, minimum.source) == ("5", "cluster")
        view = (await rest.client.get("/clusters/prod/topics/orders")).json()
        assert view["min_insync_replicas"] == 2


async def test_settings_that_tools_set_by_habit_are_taken_and_refusals_say_why(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        habits = {"preallocate": "False", "file.delete.delay.ms": " 1000", "flush.ms": "1000"}
        told = await outcomes(rest, creation("orders", configs=habits))
        assert codes(told) == [0]
        created = {config.name: config for config in told[0].configs}
        assert (created["preallocate"].value, created["preallocate"].source) == ("false", "topic")
        delay = created["file.delete.delay.ms"]
        assert (delay.value, delay.source, delay.is_read_only) == ("1000", "topic", False)
        assert delay.note is not None and delay.note.startswith("kept, changes nothing: deleted files are")
        assert created["flush.ms"].note is None
        assert (created["segment.jitter.ms"].value, created["segment.jitter.ms"].source) == ("0", "default")
        assert set(created) == {name for name, one in TOPIC_SETTINGS.items() if not one.is_refused}
        (tiered,) = await outcomes(rest, creation("tiered", configs={"remote.storage.enable": "true"}))
        assert tiered.error_code == 40
        assert tiered.message is not None
        assert tiered.message.startswith(
            "remote.storage.enable must be false, not 'true'; it concerns tiered"
        )


async def test_throttles_of_kafkas_reassignments_are_set_and_cleared(zookeeper: MemoryZooKeeper) -> None:
    """kafka-reassign-partitions --execute --throttle, and --verify, which clears what may not be set."""
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    lists = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    cleared = (*rates, "replica.alter.log.dirs.io.max.bytes.per.second")
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        throttle = AlterConfigsCall(
            resources=(
                ConfigsToAlter(kind=BROKER, name="2", configs=dict.fromkeys(rates, "5000")),
                ConfigsToAlter(kind=TOPIC, name="orders", configs=dict.fromkeys(lists, "0:1,0:2")),
            )
        )
        assert codes(await outcomes(rest, throttle)) == [0, 0]
        assert rest.engine.cluster("prod").decided.brokers[2].configs == dict.fromkeys(rates, "5000")
        of_topic = ConfigsToDescribe(kind=TOPIC, name="orders", names=lists)
        (described,) = await outcomes(rest, DescribeConfigsCall(resources=(of_topic,)))
        assert [(one.value, one.source) for one in described.configs] == [("0:1,0:2", "topic")] * 2
        clear = AlterConfigsCall(
            resources=(
                ConfigsToAlter(kind=BROKER, name="1", configs=dict.fromkeys(cleared)),
                ConfigsToAlter(kind=BROKER, name="2", configs=dict.fromkeys(cleared)),
                ConfigsToAlter(kind=TOPIC, name="orders", configs=dict.fromkeys(lists)),
            )
        )
        for _ in range(2):
            assert codes(await outcomes(rest, clear)) == [0, 0, 0]
        assert rest.engine.cluster("prod").decided.brokers[2].configs == {}


async def test_preferred_elections_tell_each_partition_its_own(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(partitions=1, assignments=[[1, 2, 3]])
        named = ElectLeadersCall(partitions=(("orders", 0), ("orders", 5)))
        assert codes(await outcomes(rest, named)) == [84, 3]
        await silence(rest, brokers, 2, 3)
        assert codes(await outcomes(rest, named)) == [80, 3]
        everything = await outcomes(rest, ElectLeadersCall())
        assert [(one.topic, one.partition, one.error_code) for one in everything] == [("orders", 0, 80)]


UNCLEAN = ElectLeadersCall(unclean=True, partitions=(("orders", 0), ("orders", 4)))


async def lose_the_leader(rest: Rest) -> None:
    """Brokers 1 and 2 lagged and live, 3 led and is down; nobody has reported the end of its log."""
    brokers = await rest.form()
    await outcomes(
        rest,
        creation(
            "orders",
            partitions=-1,
            replication_factor=-1,
            assignments=((3, 1, 2),),
            configs={"min.insync.replicas": "1"},
        ),
        headers=HEADERS,
    )
    await silence(rest, brokers, 2, 3)
    await silence(rest, brokers, 3)
    await silence(rest, brokers)
    for broker in brokers[:2]:
        for _ in range(3):
            await broker.heartbeat()
            await broker.apply()


async def tell_log_ends(rest: Rest, *ends: int) -> None:
    """Of brokers 1, 2, ..."""
    (state,) = rest.engine.cluster("prod").decided.partitions.values()
    for broker_id, end in enumerate(ends, start=1):
        log_end = ReplicaLogEnd(
            topic_id=state.topic_id,
            partition=0,
            leader_epoch=state.leader_epoch,
            log_start_offset=0,
            log_end_offset=end,
            high_watermark=0,
            epochs=((0, 0),),
        )
        epoch = rest.engine.cluster("prod").decided.brokers[broker_id].broker_epoch
        report = LagReport(broker_id=broker_id, broker_epoch=epoch, log_ends=(log_end,))
        await rest.engine.submit("prod", Report(wall_ms=0, request=report))


async def test_an_unclean_election_takes_the_replica_that_loses_least(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await lose_the_leader(rest)
        assert codes(await outcomes(rest, UNCLEAN)) == [83, 3]
        await tell_log_ends(rest, 40, 70)
        everything = await outcomes(rest, ElectLeadersCall(unclean=True))
        assert [(one.topic, one.partition, one.error_code) for one in everything] == [("orders", 0, 0)]
        view = (await rest.client.get("/clusters/prod/topics/orders/partitions/0")).json()
        assert (view["leader"], view["state"]) == (2, "recovering")
        row = (await rest.recorded(cause="elect_leader_unclean"))[0]
        assert (row["actor"], row["reason"]) == (ACTOR, None)
        assert row["outcome"]["detail"].startswith("no record is known to be lost")
        assert codes(await outcomes(rest, UNCLEAN)) == [84, 3]


async def test_with_tokens_nobody_elects_uncleanly_this_way(zookeeper: MemoryZooKeeper) -> None:
    settings = ApiSettings(kafka_administration=True)
    async with controller(zookeeper, tokens=TOKENS, settings=settings) as rest:
        await lose_the_leader(rest)
        await tell_log_ends(rest, 40, 70)
        assert codes(await outcomes(rest, UNCLEAN, headers=HEADERS)) == [31, 3]


CREATE = creation("orders")
DESCRIBE = DescribeConfigsCall(resources=(ConfigsToDescribe(kind=BROKER, name=""),))


async def test_read_only_and_tokens_close_this_door_but_for_looking(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, settings=ApiSettings(read_only=True)) as rest:
        await rest.form()
        assert codes(await outcomes(rest, CREATE)) == [44]
        assert codes(await outcomes(rest, creation("orders", validate_only=True))) == [0]
        assert codes(await outcomes(rest, DESCRIBE)) == [0]
        assert codes(await outcomes(rest, ElectLeadersCall())) == [44]


async def test_with_tokens_administration_takes_a_setting_and_never_an_admins_right(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        assert codes(await outcomes(rest, CREATE, headers=HEADERS)) == [31]
        assert codes(await outcomes(rest, DESCRIBE, headers=HEADERS)) == [0]
        wishes = tuple(ReassignmentWish(topic="orders", partition=n, replicas=None) for n in range(2))
        for call, count in ((AlterReassignmentsCall(partitions=wishes), 2), (ElectLeadersCall(), 1)):
            assert codes(await outcomes(rest, call, headers=HEADERS)) == [31] * count


async def test_the_setting_lets_operators_in(zookeeper: MemoryZooKeeper) -> None:
    settings = ApiSettings(kafka_administration=True)
    async with controller(zookeeper, tokens=TOKENS, settings=settings) as rest:
        await rest.form()
        assert codes(await outcomes(rest, CREATE, headers=HEADERS)) == [0]


async def test_only_a_broker_of_the_cluster_speaks_for_clients(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        assert (await ask(rest, CREATE, broker_epoch=99)).error == "stale_broker_epoch"
        assert (await ask(rest, CREATE, cluster="test")).error == "unknown_cluster"
        await outcomes(rest, CREATE, client_id="a b\n")
        (row,) = await rest.recorded(cause="create_topic")
        assert row["actor"] == "anonymous@10.1.2.3/kafka:1"


async def test_nothing_is_done_when_it_cant_be_written_down(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.sql.down = True
        (told,) = await outcomes(rest, CREATE)
        assert told.error_code == 41
        assert rest.engine.cluster("prod").decided.topics == {}


def first_use(name: str) -> CreateTopicsCall:
    return CreateTopicsCall(topics=(TopicToCreate(name=name),), on_first_use=True)


async def enable_first_use(rest: Rest, **configs: str) -> None:
    wanted = {"auto.create.topics.enable": "true"} | {
        name.replace("_", "."): value for name, value in configs.items()
    }
    body = {"configs": wanted}
    answer = await rest.client.post("/clusters/prod/configs:alter", json=body)
    assert answer.status_code == 200, answer.text


async def test_a_first_use_makes_the_topic_by_the_clusters_defaults_and_the_audit_says_so(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        assert codes(await outcomes(rest, first_use("orders"))) == [44], "it is off"
        await enable_first_use(rest, num_partitions="4", default_replication_factor="2")
        assert codes(await outcomes(rest, first_use("orders"))) == [0]
        view = (await rest.client.get("/clusters/prod/topics/orders")).json()
        assert (view["partitions"], view["replication_factor"]) == (4, 2)
        (change,) = await rest.recorded(cause="topic_created", topic="orders", entity="topic")
        assert (change["actor"], change["reason"]) == (ACTOR, "first use")
        assert codes(await outcomes(rest, first_use("orders"))) == [36]
        assert codes(await outcomes(rest, first_use("no/name"))) == [17]
        assert codes(await outcomes(rest, first_use("__consumer_offsets"))) != [0]


async def test_what_bounds_creations_bounds_first_uses(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await enable_first_use(rest, default_replication_factor="9")
        assert codes(await outcomes(rest, first_use("orders"))) == [38], "there are three brokers"
        await enable_first_use(rest, default_replication_factor="3", cluster_protected="true")
        (refused,) = await outcomes(rest, first_use("orders"))
        assert refused.error_code == 44 and "protected" in (refused.message or "")
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 404


async def test_the_setting_of_first_use_is_enough_where_administration_needs_tokens(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await enable_first_use(rest)
    async with controller(zookeeper, tokens=TOKENS) as rest:
        assert codes(await outcomes(rest, CREATE, headers=HEADERS)) == [31]
        assert codes(await outcomes(rest, first_use("orders"), headers=HEADERS)) == [0]
    async with controller(zookeeper, settings=ApiSettings(read_only=True)) as rest:
        assert codes(await outcomes(rest, first_use("payments"))) == [44]


async def test_groups_have_settings_of_their_own(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.engine.cluster("prod").decided.level = TRANSACTIONS.since
        name = "consumer.session.timeout.ms"

        def alter(group_id: str, value: str | None) -> AlterConfigsCall:
            one = ConfigsToAlter(kind=ResourceKind.GROUP, name=group_id, configs={name: value})
            return AlterConfigsCall(resources=(one,))

        assert codes(await outcomes(rest, alter("g", "50000"))) == [40], "below the level"
        rest.engine.cluster("prod").decided.level = CONSUMER_GROUPS.since
        assert codes(await outcomes(rest, alter("g", "50000"))) == [0]
        assert codes(await outcomes(rest, alter("g", "61000"))) == [40]
        assert codes(await outcomes(rest, alter("", "50000"))) == [42]
        asked = ConfigsToDescribe(kind=ResourceKind.GROUP, name="g", names=None)
        (described,) = await outcomes(rest, DescribeConfigsCall(resources=(asked,)))
        by_name = {config.name: config for config in described.configs}
        assert (by_name[name].value, by_name[name].source) == ("50000", ConfigSource.GROUP)
        assert [one.value for one in by_name[name].synonyms] == ["50000", "45000"]
        assert by_name["consumer.heartbeat.interval.ms"].source is ConfigSource.DEFAULT
