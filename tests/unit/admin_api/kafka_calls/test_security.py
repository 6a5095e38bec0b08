"""What brokers forward of Kafka's calls about ACLs, users and quotas: each part alone, and by whom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admin_api.http.tokens import load_tokens
from admin_api.settings import ApiSettings
from controller.audit.change import Entity
from springtide.contract.administration import (
    AdminCall,
    AdminOutcome,
    AdminRequest,
    AdminResponse,
    AlterAclsCall,
    AlterQuotasCall,
    AlterScramCall,
    QuotasToAlter,
    ScramDeletion,
    ScramUpsertion,
)
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER, QuotaEntity
from springtide.contract.session import ListenerAddress
from springtide.security.acls.model import AclFilter
from springtide.security.sasl.credentials import ScramMechanism, credential_from_password, salted_password
from springtide.security.sasl.exchange import Mechanism
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper
from tests.kit.springtide.acl_lines import acl

pytestmark = pytest.mark.anyio

SECRET = "the-token-of-broker-1-0123456789"
TOKENS = load_tokens(file=None, environment=f"broker-1 broker {SECRET}")
READ, WRITE = acl("ALLOW alice@* READ TOPIC payments"), acl("ALLOW alice@* WRITE TOPIC payments")
WITHOUT_A_HOST = acl("ALLOW alice@store1 READ TOPIC payments")
SHA_256, SHA_512, UNKNOWN = 1, 2, 9
SECURED = (Entity.ACLS, Entity.USER, Entity.QUOTAS)


async def form(rest: Rest, *, with_authorizer: bool = True) -> None:
    """Make a cluster of one broker that other brokers reach by TLS."""
    await rest.engine.create_cluster("prod", configs={}, actor="operator")
    broker = Broker(rest.engine, 1)
    address = ListenerAddress(host=broker.request.host, port=broker.request.port, protocol="SSL")
    broker.request = msgspec.structs.replace(broker.request, listeners={"INTERNAL": address})
    await broker.register()
    if with_authorizer:
        configs = {AUTHORIZER: STANDARD_AUTHORIZER}
        response = await rest.post("/clusters/prod/configs:alter", {"configs": configs})
        assert response.status_code == 200, response.text


async def outcomes(rest: Rest, call: AdminCall, *, principal: str | None = None) -> list[AdminOutcome]:
    request = AdminRequest(
        broker_id=1,
        broker_epoch=rest.engine.cluster("prod").decided.brokers[1].broker_epoch,
        client_id="ops-tool",
        client_host="10.1.2.3",
        principal=principal,
        call=call,
    )
    response = await rest.client.post(
        "/internal/clusters/prod/brokers/1:administer",
        content=msgspec.json.encode(request),
        headers={"Authorization": f"Bearer {SECRET}"},
    )
    assert response.status_code == 200, response.text
    answer = msgspec.json.decode(response.content, type=AdminResponse)
    assert answer.error == "none"
    return list(answer.outcomes)


def codes(told: list[AdminOutcome]) -> list[int]:
    return [outcome.error_code for outcome in told]


def upsertion(user: str, mechanism: int = SHA_256, **changes: Any) -> ScramUpsertion:
    """Return what a client sends of the password `pw`."""
    name: ScramMechanism = Mechanism.SCRAM_SHA_256 if mechanism == SHA_256 else Mechanism.SCRAM_SHA_512
    salted = salted_password(name, "pw", salt=b"NaCl", iterations=4096)
    given = ScramUpsertion(
        user=user, mechanism=mechanism, iterations=4096, salt=b"NaCl", salted_password=salted
    )
    return msgspec.structs.replace(given, **changes)


async def test_without_an_authorizer_acls_are_no_subject(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await form(rest, with_authorizer=False)
        told = await outcomes(rest, AlterAclsCall(create=(READ, WRITE), delete=(AclFilter(),)))
        assert codes(told) == [54, 54, 54]
        assert AUTHORIZER in (told[0].message or "")
        assert rest.engine.cluster("prod").image.acls == {}


async def test_bindings_are_added_and_filters_remove_each_alone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await form(rest)
        told = await outcomes(rest, AlterAclsCall(create=(READ, WITHOUT_A_HOST, WRITE, READ)))
        assert codes(told) == [0, 42, 0, 0]
        assert "store1" in (told[1].message or "")
        filters = (AclFilter(principal="User:bob"), AclFilter(host="store1"), AclFilter())
        told = await outcomes(rest, AlterAclsCall(delete=filters))
        assert codes(told) == [0, 42, 0]
        assert [outcome.bindings for outcome in told] == [(), (), (READ, WRITE)]
        (first, second) = await rest.recorded(cause="alter_acls")
        assert first["actor"] == "unverified:ops-tool@10.1.2.3/kafka:1"
        assert second["after"]["added"][0]["operation"] == "read"


async def test_users_are_changed_whole_or_not_at_all(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await form(rest)
        call = AlterScramCall(
            deletions=(ScramDeletion(user="nobody", mechanism=SHA_256),),
            upsertions=(
                upsertion("alice"),
                upsertion("bob"),
                upsertion("alice", SHA_512),
                upsertion("bob"),
                upsertion("carol", UNKNOWN),
                upsertion("dave", iterations=4095),
                upsertion("erin", salted_password=b"short"),
                upsertion(""),
            ),
        )
        told = await outcomes(rest, call)
        # nobody, alice, bob, carol, dave, erin and the empty name
        assert codes(told) == [91, 0, 92, 33, 93, 93, 93]
        (alice,) = rest.engine.cluster("prod").image.users.values()
        derived = credential_from_password(Mechanism.SCRAM_SHA_256, "pw", salt=b"NaCl", iterations=4096)
        assert [secret.mechanism for secret in alice.scram] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert alice.scram[0].stored_key == derived.stored_key
        gone = tuple(ScramDeletion(user="alice", mechanism=mechanism) for mechanism in (SHA_256, SHA_512))
        assert codes(await outcomes(rest, AlterScramCall(deletions=gone))) == [0]
        assert rest.engine.cluster("prod").image.users == {}
        assert "NaCl" not in str(await rest.recorded())


async def test_quotas_are_changed_entity_by_entity_or_only_tried(zookeeper: MemoryZooKeeper) -> None:
    entity = QuotaEntity(user="alice")
    changes = (
        QuotasToAlter(entity=entity, quotas={"producer_byte_rate": 5.0}),
        QuotasToAlter(entity=QuotaEntity(user="bob"), quotas={"bytes": 1.0}),
    )
    async with controller(zookeeper) as rest:
        await form(rest)
        for validate_only, stored in ((True, []), (False, [entity])):
            call = AlterQuotasCall(entities=changes, validate_only=validate_only)
            assert codes(await outcomes(rest, call)) == [0, 42]
            assert list(rest.engine.cluster("prod").image.quotas) == stored
        assert len(await rest.recorded(cause="alter_quotas")) == 1


async def test_a_principal_that_the_broker_verified_administers_a_controller_with_tokens(
    zookeeper: MemoryZooKeeper,
) -> None:
    calls = (
        AlterAclsCall(create=(READ,)),
        AlterScramCall(upsertions=(upsertion("alice"),)),
        AlterQuotasCall(
            entities=(QuotasToAlter(entity=QuotaEntity(user="a"), quotas={"request_percentage": 1.0}),)
        ),
    )
    async with controller(zookeeper) as rest:
        await form(rest)
    async with controller(zookeeper, name="c2", tokens=TOKENS) as rest:
        for call in calls:
            assert codes(await outcomes(rest, call)) == [31]
        for call in calls:
            assert codes(await outcomes(rest, call, principal="User:root")) == [0]
        changes = rest.engine.cluster("prod").published.changes
        actors = {change.actor for (entity, _), change in changes.items() if entity in SECURED}
        assert actors == {"User:root@10.1.2.3/kafka:1"}


async def test_without_a_verified_principal_an_open_controller_lets_no_one_change_users(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await form(rest)
    settings = ApiSettings(kafka_administration=True)
    async with controller(zookeeper, name="c2", tokens=TOKENS, settings=settings) as rest:
        assert codes(await outcomes(rest, AlterAclsCall(create=(READ,)))) == [31]
        assert codes(await outcomes(rest, AlterScramCall(upsertions=(upsertion("alice"),)))) == [31]
        quotas = QuotasToAlter(entity=QuotaEntity(user="a"), quotas={"request_percentage": 1.0})
        assert codes(await outcomes(rest, AlterQuotasCall(entities=(quotas,)))) == [0]


@pytest.mark.parametrize("principal", ["User:" + "x" * 900, "User:a\nb", "User:\N{GRINNING FACE}"])
async def test_an_actors_name_is_one_line_of_a_bounded_length(
    zookeeper: MemoryZooKeeper, principal: str
) -> None:
    quotas = QuotasToAlter(entity=QuotaEntity(user="a"), quotas={"request_percentage": 1.0})
    async with controller(zookeeper) as rest:
        await form(rest)
        assert codes(await outcomes(rest, AlterQuotasCall(entities=(quotas,)), principal=principal)) == [0]
        (row,) = await rest.recorded(cause="alter_quotas")
        assert len(row["actor"]) <= 255
        assert row["actor"].isprintable()
        assert row["actor"].endswith("@10.1.2.3/kafka:1")
