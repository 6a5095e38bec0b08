"""The table against a second statement of the rules, which reads all bindings for each question."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from springtide.security.acls.model import (
    AclBinding,
    AclFilter,
    Decision,
    Operation,
    PatternType,
    Permission,
    Reason,
    ResourceType,
)
from springtide.security.acls.table import Acls

ALICE, BOB, ROOT, ANYBODY = "User:alice", "User:bob", "User:root", "User:*"
NAMES = ["a", "aa", "ab", "abc", "b", "*", "*a"]
PRINCIPALS = [ALICE, BOB, ROOT, ANYBODY]
HOSTS = ["10.0.0.1", "10.0.0.2", "*"]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
PATTERNS = [PatternType.LITERAL, PatternType.PREFIXED]
ASKED = [
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
]
PERMISSIONS = [Permission.ALLOW, Permission.DENY]

BINDINGS = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from(PATTERNS),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([Operation.ALL, *ASKED]),
    st.sampled_from(PERMISSIONS),
)
CLIENTS = st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS[:2]))
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, *TYPES]),
    st.sampled_from([None, *NAMES]),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, *PATTERNS]),
    st.sampled_from([None, ALICE]),
    st.sampled_from([None, "*"]),
    st.sampled_from([Operation.ANY, Operation.READ]),
    st.sampled_from([Permission.ANY, Permission.ALLOW]),
)


def stands_for(binding: AclBinding, resource_type: ResourceType, name: str) -> bool:
    if binding.resource_type != resource_type:
        return False
    if binding.pattern_type == PatternType.PREFIXED:
        return name.startswith(binding.resource_name)
    return binding.resource_name in ("*", name)


def concerns(binding: AclBinding, client: tuple[str, str], operation: Operation) -> bool:
    """Whether principal, host and operation of a binding match."""
    if binding.principal not in ("User:*", client[0]) or binding.host not in ("*", client[1]):
        return False
    granted = {binding.operation}
    if binding.permission == Permission.ALLOW:
        if binding.operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
            granted.add(Operation.DESCRIBE)
        if binding.operation == Operation.ALTER_CONFIGS:
            granted.add(Operation.DESCRIBE_CONFIGS)
    return Operation.ALL in granted or operation in granted


def decided(
    bindings: Iterable[AclBinding], client: tuple[str, str], operation: Operation, *, is_open: bool
) -> tuple[bool, Reason]:
    """The decision for a resource that each of the bindings stands for."""
    held = list(bindings)
    matching = {binding.permission for binding in held if concerns(binding, client, operation)}
    if client[0] == ROOT:
        return True, Reason.SUPER_USER
    if Permission.DENY in matching:
        return False, Reason.DENY_BINDING
    if Permission.ALLOW in matching:
        return True, Reason.ALLOW_BINDING
    if held:
        return False, Reason.NO_MATCHING_BINDING
    return is_open, Reason.NO_BINDING


def is_allowed_any(
    bindings: list[AclBinding],
    client: tuple[str, str],
    resource_type: ResourceType,
    operation: Operation,
    *,
    is_open: bool,
) -> bool:
    """Whether some name is allowed: an ALLOW's own, one that begins with a prefix of it, or one that only `*`
    stands for. The last letters of the names asked for are in no binding."""
    names = [f"{binding.resource_name}\N{BLACK SMALL SQUARE}" for binding in bindings]
    names += ["\N{BLACK SMALL SQUARE}", *(binding.resource_name for binding in bindings)]
    return any(
        decided(
            (one for one in bindings if stands_for(one, resource_type, name)),
            client,
            operation,
            is_open=is_open,
        )[0]
        for name in names
    )


def table_of(bindings: Iterable[AclBinding], *, is_open: bool = False) -> Acls:
    return Acls(bindings, version=1, super_users=frozenset([ROOT]), allow_everyone_if_no_acl_found=is_open)


@given(st.lists(BINDINGS, max_size=12), CLIENTS, st.booleans())
def test_the_table_decides_as_a_reading_of_all_bindings_does(
    bindings: list[AclBinding], client: tuple[str, str], is_open: bool
) -> None:
    table = table_of(bindings, is_open=is_open)
    for resource_type in TYPES:
        for name in NAMES:
            over = [binding for binding in bindings if stands_for(binding, resource_type, name)]
            for operation in ASKED:
                answer = table.decide(*client, resource_type, name, operation)
                assert (answer.allowed, answer.reason) == decided(over, client, operation, is_open=is_open)
                check_binding(answer, over, client, operation)


def check_binding(
    answer: Decision, over: list[AclBinding], client: tuple[str, str], operation: Operation
) -> None:
    """Assert that the binding which decided is one of those that can, or that none is named."""
    permission = {Reason.ALLOW_BINDING: Permission.ALLOW, Reason.DENY_BINDING: Permission.DENY}
    if answer.reason not in permission:
        assert answer.binding is None
        return
    assert answer.binding is not None
    assert answer.binding in over
    assert answer.binding.permission is permission[answer.reason]
    assert concerns(answer.binding, client, operation)


@given(st.lists(BINDINGS, max_size=12), CLIENTS, st.booleans(), st.sampled_from(ASKED))
def test_any_resource_of_a_type_is_allowed_if_some_name_is(
    bindings: list[AclBinding], client: tuple[str, str], is_open: bool, operation: Operation
) -> None:
    table = table_of(bindings, is_open=is_open)
    for resource_type in TYPES:
        answer = table.decide_any(*client, resource_type, operation)
        assert answer.allowed == is_allowed_any(bindings, client, resource_type, operation, is_open=is_open)


@given(st.lists(BINDINGS, max_size=12), FILTERS)
def test_a_filter_selects_what_a_reading_of_all_bindings_does(
    bindings: list[AclBinding], wanted: AclFilter
) -> None:
    assert list(table_of(bindings).select(wanted)) == sorted(
        binding for binding in set(bindings) if wanted.matches(binding)
    )


@given(
    st.lists(BINDINGS, max_size=12),
    st.lists(st.tuples(st.lists(BINDINGS, max_size=4), st.lists(BINDINGS, max_size=4)), max_size=4),
    CLIENTS,
)
def test_a_table_changed_step_by_step_decides_as_one_built_at_once(
    bindings: list[AclBinding],
    steps: list[tuple[list[AclBinding], list[AclBinding]]],
    client: tuple[str, str],
) -> None:
    table, held = table_of(bindings), set(bindings)
    for version, (added, strangers) in enumerate(steps, start=2):
        removed = [*strangers, *table.bindings[::2]]
        table = table.changed(version=version, added=added, removed=removed)
        held = (held - set(removed)) | set(added)
    afresh = table_of(held)
    assert table.bindings == afresh.bindings
    for resource_type in TYPES:
        for name in NAMES:
            question = (*client, resource_type, name, Operation.DESCRIBE)
            assert table.decide(*question) == afresh.decide(*question)
