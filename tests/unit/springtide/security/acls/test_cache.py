"""A connection's decisions: remembered for one version of the ACLs, in bounded memory."""

from __future__ import annotations

from springtide.security.acls.cache import DecisionCache
from springtide.security.acls.model import Decision, Operation, ResourceType
from springtide.security.acls.table import Acls
from springtide.security.acls.validation import NAME_LENGTH_MAX
from tests.kit.springtide.acl_lines import acls

READ, WRITE, TOPIC, GROUP = Operation.READ, Operation.WRITE, ResourceType.TOPIC, ResourceType.GROUP


class CountedAcls(Acls):
    """A table that counts what it is asked."""

    asked = 0

    def decide(
        self, principal: str, host: str, resource_type: ResourceType, name: str, operation: Operation
    ) -> Decision:
        self.asked += 1
        return super().decide(principal, host, resource_type, name, operation)

    def decide_any(
        self, principal: str, host: str, resource_type: ResourceType, operation: Operation
    ) -> Decision:
        self.asked += 1
        return super().decide_any(principal, host, resource_type, operation)


def counted(*lines: str, version: int = 1) -> CountedAcls:
    return CountedAcls(acls(*lines).bindings, version=version)


def test_a_decision_is_that_of_the_table_for_the_client_and_the_whole_question() -> None:
    table = acls(
        "ALLOW alice@::1 READ TOPIC pay", "ALLOW alice@::1 WRITE GROUP pay", "ALLOW bob@* ALL TOPIC *"
    )
    alice, elsewhere = DecisionCache("User:alice", "::1"), DecisionCache("User:alice", "::2")
    for _ in range(2):
        assert [
            alice.decide(table, resource_type, name, operation).allowed
            for resource_type in (TOPIC, GROUP)
            for name in ("pay", "fee", None)
            for operation in (READ, WRITE)
        ] == [True, False, False, False, True, False, False, True, False, False, False, True]
        assert not elsewhere.decide(table, TOPIC, "pay", READ).allowed


def test_a_decision_is_asked_for_once() -> None:
    table = counted("ALLOW alice@* READ TOPIC pay")
    cache = DecisionCache("User:alice", "::1")
    answers = {cache.decide(table, TOPIC, name, READ) for name in ("pay", "pay", None, None, "pay")}
    assert (table.asked, len(cache), len(answers)) == (2, 2, 1)


def test_another_version_empties_the_cache() -> None:
    cache = DecisionCache("User:alice", "::1")
    first, second = counted("ALLOW alice@* READ TOPIC pay"), counted(version=2)
    assert cache.decide(first, TOPIC, "pay", READ).allowed
    assert cache.decide(first, TOPIC, None, READ).allowed
    assert not cache.decide(second, TOPIC, "pay", READ).allowed
    assert len(cache) == 1
    assert not cache.decide(second, TOPIC, None, READ).allowed
    assert cache.decide(first, TOPIC, "pay", READ).allowed
    assert (first.asked, second.asked) == (3, 2)


def test_a_full_cache_forgets_its_oldest_decision() -> None:
    table = counted()
    cache = DecisionCache("User:alice", "::1", decisions_max=3)
    for name in ("a", "b", "c", "d"):
        cache.decide(table, TOPIC, name, READ)
    assert (len(cache), table.asked) == (3, 4)
    for name in ("b", "c", "d"):
        cache.decide(table, TOPIC, name, READ)
    assert table.asked == 4
    cache.decide(table, TOPIC, "a", READ)
    assert (len(cache), table.asked) == (3, 5)


def test_a_name_that_is_longer_than_a_binding_s_is_decided_and_not_held() -> None:
    table = counted("ALLOW alice@* READ GROUP g~")
    cache = DecisionCache("User:alice", "::1")
    assert cache.decide(table, GROUP, "g" * (NAME_LENGTH_MAX + 1), READ).allowed
    assert len(cache) == 0
    assert cache.decide(table, GROUP, "g" * NAME_LENGTH_MAX, READ).allowed
    assert len(cache) == 1
