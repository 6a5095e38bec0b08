"""What becomes of requests about ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core import acls as rules
from controller.core.events import AclAdded, AclsAltered, AclsRemoved, AlterAcls, Refusal, RefusalCode
from controller.core.records import AclsRecord, Cause
from springtide.contract.security import AclsOfPattern
from springtide.security.acls.model import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    ResourceType,
)
from tests.kit.controller.core_cluster import Cluster
from tests.kit.controller.security import of_topic
from tests.kit.springtide.acl_lines import acl

LINES = ("ALLOW alice@* READ", "ALLOW alice@* WRITE")
READ, WRITE = (acl(f"{line} TOPIC a") for line in LINES)
OTHER = acl("DENY bob@10.0.0.1 READ TOPIC a~")
TOPIC_A = AclFilter(resource_type=ResourceType.TOPIC, resource_name="a", pattern_type=PatternType.LITERAL)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=())


def alter(cluster: Cluster, **fields: Any) -> AclsAltered:
    return cluster.ask(AlterAcls(wall_ms=7, actor="ann", **fields), AclsAltered)


def refuse(cluster: Cluster, **fields: Any) -> Refusal:
    return cluster.ask(AlterAcls(wall_ms=7, actor="ann", **fields), Refusal)


def written(cluster: Cluster) -> list[AclsOfPattern]:
    return [record.acls for record in cluster.last.records if isinstance(record, AclsRecord)]


def all_bindings(cluster: Cluster) -> set[AclBinding]:
    found = [binding for acls in cluster.image.acls.values() for binding in acls.bindings]
    assert len(found) == cluster.image.acl_bindings
    return set(found)


def test_bindings_of_one_pattern_are_one_record(cluster: Cluster) -> None:
    altered = alter(cluster, added=(WRITE, READ))
    assert altered.added == (AclAdded(binding=WRITE, is_new=True), AclAdded(binding=READ, is_new=True))
    assert written(cluster) == [of_topic("a", *LINES)]
    (record,) = cluster.last.records
    assert (record.change.cause, record.change.actor) == (Cause.ACLS_ALTERED, "ann")


def test_what_is_there_already_is_no_record(cluster: Cluster) -> None:
    alter(cluster, added=(READ,))
    altered = alter(cluster, added=(READ,))
    assert altered.added == (AclAdded(binding=READ),)
    assert cluster.last.records == ()


def test_hosts_are_stored_in_one_spelling(cluster: Cluster) -> None:
    alter(cluster, added=(acl("ALLOW alice@::ffff:10.0.0.1 READ TOPIC a"),))
    assert all_bindings(cluster) == {acl("ALLOW alice@10.0.0.1 READ TOPIC a")}


def test_each_filter_tells_what_it_matched_and_an_empty_pattern_is_gone(cluster: Cluster) -> None:
    alter(cluster, added=(READ, WRITE, OTHER))
    of_alice = AclFilter(principal="User:alice", operation=Operation.READ)
    altered = alter(cluster, removed=(of_alice, TOPIC_A, AclFilter(principal="User:carol")))
    assert altered.removed == (
        AclsRemoved(bindings=(READ,)),
        AclsRemoved(bindings=(READ, WRITE)),
        AclsRemoved(),
    )
    assert written(cluster) == [of_topic("a")]
    assert all_bindings(cluster) == {OTHER}


def test_a_filter_of_one_pattern_leaves_prefixes_of_its_name(cluster: Cluster) -> None:
    alter(cluster, added=(READ, OTHER))
    prefixed = AclFilter(
        resource_type=ResourceType.TOPIC, resource_name="a", pattern_type=PatternType.PREFIXED
    )
    assert alter(cluster, removed=(prefixed,)).removed == (AclsRemoved(bindings=(OTHER,)),)
    assert alter(cluster, removed=(prefixed,)).removed == (AclsRemoved(),)
    match = AclFilter(resource_type=ResourceType.TOPIC, resource_name="a", pattern_type=PatternType.MATCH)
    assert alter(cluster, removed=(match,)).removed == (AclsRemoved(bindings=(READ,)),)


def test_a_request_can_replace_bindings_in_one_step(cluster: Cluster) -> None:
    alter(cluster, added=(READ,))
    altered = alter(cluster, removed=(TOPIC_A,), added=(WRITE, READ))
    assert altered.removed == (AclsRemoved(bindings=(READ,)),)
    assert written(cluster) == [of_topic("a", *LINES)]
    alter(cluster, removed=(TOPIC_A,), added=(WRITE, READ))
    assert cluster.last.records == ()


def test_a_dry_run_answers_the_same_and_writes_nothing(cluster: Cluster) -> None:
    altered = alter(cluster, added=(READ,), dry_run=True)
    assert altered.added == (AclAdded(binding=READ, is_new=True),)
    assert altered.dry_run
    assert cluster.last.records == ()
    assert cluster.image.acls == {}


def test_a_bad_binding_or_filter_is_refused_alone(cluster: Cluster) -> None:
    bad = acl("ALLOW alice@nowhere READ TOPIC a")
    altered = alter(cluster, added=(bad, READ), removed=(AclFilter(operation=Operation.UNKNOWN),))
    refusals = [altered.added[0].refusal, altered.removed[0].refusal]
    assert [refusal and refusal.code for refusal in refusals] == [RefusalCode.INVALID_ACL] * 2
    assert all_bindings(cluster) == {READ}


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_client_can_send_is_refused(cluster: Cluster, name: str) -> None:
    (added,) = alter(cluster, added=(acl(f"ALLOW alice@* READ GROUP {name}"),)).added
    assert added.refusal is not None
    assert added.refusal.code is RefusalCode.INVALID_ACL


def lines(count: int, name: str = "t{}") -> Iterable[AclBinding]:
    return (acl(f"ALLOW user{number}@* READ TOPIC {name.format(number)}") for number in range(count))


def too_many(altered: AclsAltered) -> list[tuple[RefusalCode, int | None]]:
    return [(one.refusal.code, one.refusal.limit) for one in altered.added if one.refusal is not None]


@pytest.mark.parametrize("bound", ["BINDINGS_MAX", "PATTERNS_MAX"])
def test_a_cluster_has_only_so_many(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(rules, bound, 3)
    assert too_many(alter(cluster, added=tuple(lines(5)))) == [(RefusalCode.TOO_MANY_ACLS, 3)] * 2
    assert len(all_bindings(cluster)) == 3
    freed = AclFilter(resource_type=ResourceType.TOPIC, resource_name="t0", pattern_type=PatternType.LITERAL)
    altered = alter(cluster, removed=(freed,), added=(READ, WRITE))
    assert len(too_many(altered)) == (bound == "BINDINGS_MAX")


def test_the_characters_of_all_bindings_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "CHARACTERS_MAX", 25)
    assert too_many(alter(cluster, added=(READ, WRITE, OTHER))) == [(RefusalCode.TOO_MANY_ACLS, 25)]
    assert cluster.image.acl_characters == 2 * len("aUser:alice")
    alter(cluster, removed=(TOPIC_A,))
    assert cluster.image.acl_characters == 0
    assert too_many(alter(cluster, added=(OTHER,))) == []


def test_the_row_of_a_pattern_is_bounded(cluster: Cluster) -> None:
    long = "x" * 990
    for start in range(0, 1_000, 250):
        added = tuple(acl(f"ALLOW {long}{number:04d}@* READ TOPIC a") for number in range(start, start + 250))
        altered = alter(cluster, added=added)
    assert too_many(altered)[0] == (RefusalCode.TOO_MANY_ACLS, rules.PATTERN_BYTES_MAX)
    assert too_many(alter(cluster, added=(OTHER,))) == []


def test_one_request_is_bounded(cluster: Cluster) -> None:
    refusal = refuse(cluster, added=(READ,) * 1_001)
    assert (refusal.code, refusal.limit) == (RefusalCode.TOO_MANY_CHANGES, 1_000)
    refusal = refuse(cluster, removed=(AclFilter(principal="User:alice"),) * 6)
    assert (refusal.code, refusal.limit) == (RefusalCode.TOO_MANY_CHANGES, 5)
    alter(cluster, removed=(TOPIC_A,) * 6)


def test_a_controller_that_takes_over_has_the_bindings(cluster: Cluster) -> None:
    alter(cluster, added=(READ, WRITE, OTHER))
    alter(cluster, removed=(AclFilter(principal="User:bob"),))
    cluster.fail_over()
    assert all_bindings(cluster) == {READ, WRITE}
