"""What becomes of requests about quotas."""

from __future__ import annotations

import math
from typing import Any

import pytest

from controller.core import quotas as rules
from controller.core.events import AlterQuotas, EntityAltered, QuotasAltered, Refusal, RefusalCode
from controller.core.records import Cause, QuotasRecord
from controller.core.request_size import CHANGES_MAX, check_size
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import DEFAULT_ENTITY, EntityQuotas, QuotaEntity
from tests.kit.controller.core_cluster import Cluster

ALICE = QuotaEntity(user="alice")
ADDRESS = QuotaEntity(ip="10.0.0.1")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=())


def alter(
    cluster: Cluster, entity: QuotaEntity, quotas: dict[str, float | None], **fields: Any
) -> EntityAltered:
    changes = (QuotasToAlter(entity=entity, quotas=quotas),)
    reply = cluster.ask(AlterQuotas(wall_ms=7, actor="ann", changes=changes, **fields), QuotasAltered)
    (outcome,) = reply.entities
    return outcome


def code(outcome: EntityAltered) -> RefusalCode | None:
    return None if outcome.refusal is None else outcome.refusal.code


def test_quotas_are_set_and_removed_one_by_one(cluster: Cluster) -> None:
    alter(cluster, ALICE, {"producer_byte_rate": 1024, "request_percentage": 12.5})
    after = EntityQuotas(entity=ALICE, quotas={"consumer_byte_rate": 1.0, "request_percentage": 12.5})
    outcome = alter(cluster, ALICE, {"producer_byte_rate": None, "consumer_byte_rate": 1})
    assert outcome == EntityAltered(quotas=after)
    (record,) = cluster.last.records
    assert isinstance(record, QuotasRecord)
    assert (record.quotas, record.change.cause) == (after, Cause.QUOTAS_ALTERED)
    assert cluster.image.quotas == {ALICE: after}


def test_an_entity_without_quotas_is_gone(cluster: Cluster) -> None:
    alter(cluster, ALICE, {"producer_byte_rate": 1024})
    alter(cluster, ALICE, {"producer_byte_rate": None, "consumer_byte_rate": None})
    assert cluster.image.quotas == {}
    alter(cluster, ALICE, {"producer_byte_rate": None})
    assert cluster.last.records == ()
    cluster.fail_over()
    assert cluster.image.quotas == {}


@pytest.mark.parametrize(
    "entity",
    [
        QuotaEntity(user=DEFAULT_ENTITY),
        QuotaEntity(client_id="reports"),
        QuotaEntity(user="alice", client_id=DEFAULT_ENTITY),
    ],
)
def test_users_and_client_ids_have_rates(cluster: Cluster, entity: QuotaEntity) -> None:
    names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    assert code(alter(cluster, entity, dict.fromkeys(names, 2.0**40))) is None
    assert code(alter(cluster, entity, {"connection_creation_rate": 1})) is RefusalCode.INVALID_QUOTA


def test_addresses_have_a_rate_of_connections_and_one_spelling(cluster: Cluster) -> None:
    alter(cluster, QuotaEntity(ip="::ffff:10.0.0.1"), {"connection_creation_rate": 5})
    alter(cluster, QuotaEntity(ip=DEFAULT_ENTITY), {"connection_creation_rate": 6})
    assert [entity.ip for entity in cluster.image.quotas] == ["10.0.0.1", DEFAULT_ENTITY]
    assert code(alter(cluster, ADDRESS, {"producer_byte_rate": 1})) is RefusalCode.INVALID_QUOTA


@pytest.mark.parametrize(
    "entity",
    [
        QuotaEntity(),
        QuotaEntity(user="alice", ip="10.0.0.1"),
        QuotaEntity(ip="a.example"),
        QuotaEntity(ip="*"),
        QuotaEntity(user=""),
        QuotaEntity(user="a" * 256),
        QuotaEntity(client_id="a\nb"),
        QuotaEntity(client_id="\ud800"),
    ],
)
def test_an_entity_that_can_not_be_is_refused(cluster: Cluster, entity: QuotaEntity) -> None:
    assert code(alter(cluster, entity, {"producer_byte_rate": 1})) is RefusalCode.INVALID_QUOTA
    assert cluster.last.records == ()


@pytest.mark.parametrize(
    ("entity", "name", "value"),
    [
        (ALICE, "producer_byte_rate", 0),
        (ALICE, "producer_byte_rate", -1),
        (ALICE, "producer_byte_rate", 1.5),
        (ALICE, "producer_byte_rate", 2.0**64),
        (ALICE, "request_percentage", math.nan),
        (ALICE, "request_percentage", math.inf),
        (ALICE, "no_such_rate", 1),
        (ADDRESS, "connection_creation_rate", 2**31),
    ],
)
def test_a_value_that_can_not_be_is_refused(
    cluster: Cluster, entity: QuotaEntity, name: str, value: float
) -> None:
    outcome = alter(
        cluster, entity, {"producer_byte_rate": None, name: value} if entity is ALICE else {name: value}
    )
    assert code(outcome) is RefusalCode.INVALID_QUOTA
    assert cluster.image.quotas == {}


def test_an_entity_is_named_once_in_a_request(cluster: Cluster) -> None:
    changes = tuple(
        QuotasToAlter(entity=QuotaEntity(ip=ip), quotas={"connection_creation_rate": 1})
        for ip in ("10.0.0.1", "::ffff:10.0.0.1")
    )
    reply = cluster.ask(AlterQuotas(wall_ms=7, actor="ann", changes=changes), QuotasAltered)
    assert [code(outcome) for outcome in reply.entities] == [None, RefusalCode.NAMED_TWICE]


def test_a_dry_run_answers_the_same_and_writes_nothing(cluster: Cluster) -> None:
    outcome = alter(cluster, ALICE, {"producer_byte_rate": 1}, dry_run=True)
    assert outcome.quotas.quotas == {"producer_byte_rate": 1.0}
    assert cluster.last.records == ()
    assert cluster.image.quotas == {}


def test_entities_and_requests_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ENTITIES_MAX", 1)
    assert code(alter(cluster, ALICE, {"producer_byte_rate": 1})) is None
    outcome = alter(cluster, ADDRESS, {"connection_creation_rate": 1})
    assert (code(outcome), outcome.refusal and outcome.refusal.limit) == (RefusalCode.TOO_MANY_QUOTAS, 1)
    assert code(alter(cluster, ALICE, {"producer_byte_rate": 2})) is None
    changes = (QuotasToAlter(entity=ALICE, quotas={}),) * 1_001
    refusal = cluster.ask(AlterQuotas(wall_ms=7, actor="ann", changes=changes), Refusal)
    assert (refusal.code, refusal.limit) == (RefusalCode.TOO_MANY_CHANGES, 1_000)


def test_the_bound_counts_what_a_request_removes_and_adds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ENTITIES_MAX", 2)

    def codes(*changes: tuple[str, float | None]) -> list[RefusalCode | None]:
        asked = tuple(
            QuotasToAlter(entity=QuotaEntity(user=user), quotas={"producer_byte_rate": rate})
            for user, rate in changes
        )
        reply = cluster.ask(AlterQuotas(wall_ms=7, actor="ann", changes=asked), QuotasAltered)
        return [code(outcome) for outcome in reply.entities]

    full = RefusalCode.TOO_MANY_QUOTAS
    assert codes(("a", 1), ("a2", 1), ("a3", 1)) == [None, None, full]
    assert codes(("a", 2), ("a3", 1)) == [None, full]
    assert codes(("a9", None), ("a", None), ("a3", 1)) == [None, None, None]


@pytest.mark.parametrize(
    ("entity", "is_there"),
    [
        (QuotaEntity(user="a" * 255), True),
        (QuotaEntity(user="a"), True),
        (QuotaEntity(ip="10.0.0.1"), True),
        (QuotaEntity(user="alice", ip="10.0.0.1"), False),
    ],
)
def test_which_entities_there_are(entity: QuotaEntity, is_there: bool) -> None:
    assert isinstance(rules.checked_entity(entity), QuotaEntity) is is_there


@pytest.mark.parametrize(
    ("entity", "name", "value", "detail"),
    [
        (ADDRESS, "connection_creation_rate", 2**31 - 1, None),
        (
            ADDRESS,
            "connection_creation_rate",
            2**31,
            "must be above 0 and at most 2147483647, not 2147483648",
        ),
        (ALICE, "request_percentage", -1.0, "must be above 0, not -1.0"),
    ],
)
def test_the_bounds_of_a_value_are_told(
    cluster: Cluster, entity: QuotaEntity, name: str, value: float, detail: str | None
) -> None:
    refusal = alter(cluster, entity, {name: value}).refusal
    assert (refusal and refusal.detail) == (detail and f"{name} {detail}")


def test_a_request_may_have_as_many_changes_as_the_bound() -> None:
    assert check_size(CHANGES_MAX) is None
    assert check_size(CHANGES_MAX + 1) is not None
