"""What the audit gets of ACLs, users and quotas."""

from __future__ import annotations

import json
from typing import Any

from controller.audit.change import AuditedChange, Entity
from controller.core.records import Record
from controller.shell.published import Published, observe, render, truth
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.security import QuotaEntity
from tests.kit.controller.security import (
    SHA_256,
    SHA_512,
    acls_record,
    has_secrets,
    quotas_record,
    user_record,
)

ALICE = QuotaEntity(user="alice")
READS = "ALLOW alice@* READ"


def publish(published: Published, *records: Record) -> list[AuditedChange]:
    changes = []
    for record in records:
        number = published.image.sequence + 1
        change = observe(published, record, number)
        published.replay(record, number)
        assert change is not None
        changes += render(change, cluster="prod", controller_epoch=ControllerEpoch(1))
    return changes


def shown(changes: list[AuditedChange]) -> list[tuple[Entity, str, int, Any, Any]]:
    return [(one.entity, one.entity_id, one.version, one.before, one.after) for one in changes]


def test_a_users_history_has_mechanisms_and_no_secret() -> None:
    changes = publish(
        Published("prod"),
        user_record("alice", SHA_256),
        user_record("alice", SHA_256, SHA_512),
        user_record("alice"),
    )
    one = {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096}}
    both = {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}}
    assert shown(changes) == [
        (Entity.USER, "alice", 1, None, one),
        (Entity.USER, "alice", 2, one, both),
        (Entity.USER, "alice", 3, both, None),
    ]
    assert not has_secrets(json.dumps([change.after for change in changes]))


def test_acls_and_quotas_have_their_patterns_and_entities() -> None:
    changes = publish(
        Published("prod"), acls_record("a/b", READS), quotas_record(ALICE, request_percentage=5.0)
    )
    acls = {
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "resource_name": "a/b",
        "bindings": (["User:alice", "*", "READ", "ALLOW"],),
    }
    quotas = {
        "entity": {"user": "alice", "client_id": None, "ip": None},
        "quotas": {"request_percentage": 5.0},
    }
    assert shown(changes) == [
        (Entity.ACLS, "topic:literal:a%2Fb", 1, None, acls),
        (Entity.QUOTAS, "user=alice", 2, None, quotas),
    ]


def test_the_truth_has_what_is_there_with_its_last_change() -> None:
    published = Published("prod")
    records: list[Record] = [
        acls_record("a", READS),
        acls_record("b", READS),
        user_record("alice", SHA_256),
        quotas_record(ALICE, request_percentage=5.0),
        acls_record("a"),
        quotas_record(ALICE),
    ]
    told = {(one.entity, one.entity_id): one for one in publish(published, *records)}
    found = list(truth(published, controller_epoch=ControllerEpoch(1)))
    assert [(one.entity, one.entity_id, one.version) for one in found] == [
        (Entity.ACLS, "topic:literal:b", 2),
        (Entity.USER, "alice", 3),
    ]
    assert [one.after for one in found] == [told[one.entity, one.entity_id].after for one in found]
    assert published.version_of(Entity.USER, "alice") == 3
    assert published.version_of(Entity.QUOTAS, "user=alice") is None
