"""Decisions as Kafka's rules state them, in matrices: a row is what the table holds, a column is a question.

The letters are those of the kit: `+` allowed and `-` denied by a binding, `.` no binding matches, `o` the
resource has no binding and is closed, `O` it has none and is open to everyone, `S` a super user.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from springtide.security.acls.model import (
    AclFilter,
    Decision,
    Operation,
    PatternType,
    Permission,
    Reason,
    ResourceType,
)
from springtide.security.acls.table import Acls
from tests.kit.springtide.acl_lines import acl, acls, ask, mark

#: In the order of their numbers: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, ...
OPERATIONS = [operation.name for operation in Operation if operation > Operation.ALL]


def row(table: Acls, questions: Iterable[str]) -> str:
    return "".join(mark(table, question) for question in questions)


def test_an_allow_implies_describe_and_describe_configs() -> None:
    stated = {
        "ALL": "+++++++++++++",
        "READ": "+....+.......",
        "WRITE": ".+...+.......",
        "CREATE": "..+..........",
        "DELETE": "...+.+.......",
        "ALTER": "....++.......",
        "DESCRIBE": ".....+.......",
        "CLUSTER_ACTION": "......+......",
        "DESCRIBE_CONFIGS": ".......+.....",
        "ALTER_CONFIGS": ".......++....",
        "IDEMPOTENT_WRITE": ".........+...",
        "CREATE_TOKENS": "..........+..",
        "DESCRIBE_TOKENS": "...........+.",
        "TWO_PHASE_COMMIT": "............+",
    }
    assert stated == {
        bound: row(
            acls(f"ALLOW alice@* {bound} TOPIC pay"), [f"alice@::1 {one} TOPIC pay" for one in OPERATIONS]
        )
        for bound in stated
    }


def test_a_deny_implies_nothing() -> None:
    stated = {
        "ALL": "-------------",
        "READ": "-++++++++++++",
        "WRITE": "+-+++++++++++",
        "CREATE": "++-++++++++++",
        "DELETE": "+++-+++++++++",
        "ALTER": "++++-++++++++",
        "DESCRIBE": "+++++-+++++++",
        "CLUSTER_ACTION": "++++++-++++++",
        "DESCRIBE_CONFIGS": "+++++++-+++++",
        "ALTER_CONFIGS": "++++++++-++++",
        "IDEMPOTENT_WRITE": "+++++++++-+++",
        "CREATE_TOKENS": "++++++++++-++",
        "DESCRIBE_TOKENS": "+++++++++++-+",
        "TWO_PHASE_COMMIT": "++++++++++++-",
    }
    assert stated == {
        bound: row(
            acls("ALLOW alice@* ALL TOPIC pay", f"DENY alice@* {bound} TOPIC pay"),
            [f"alice@::1 {one} TOPIC pay" for one in OPERATIONS],
        )
        for bound in stated
    }


@pytest.mark.parametrize(("permission", "matching"), [("ALLOW", "+"), ("DENY", "-")])
def test_a_pattern_stands_for_names(permission: str, matching: str) -> None:
    names = ("pay", "pay.eu", "pay.eu.1", "payroll", "pa", "Pay", "*", "*x", "x")
    stated = {
        "pay": "yoooooooo",
        "pay~": "yyyyooooo",
        "pay.eu": "oyooooooo",
        "pay.eu~": "oyyoooooo",
        "pay.eu.11~": "ooooooooo",
        "pa~": "yyyyyoooo",
        "p~": "yyyyyoooo",
        "Pay": "oooooyooo",
        "Pay~": "oooooyooo",
        "*": "yyyyyyyyy",
        "*~": "ooooooyyo",
        "x": "ooooooooy",
        "x~": "ooooooooy",
    }
    assert {pattern: answers.replace("y", matching) for pattern, answers in stated.items()} == {
        pattern: row(
            acls(f"{permission} alice@* READ TOPIC {pattern}"),
            [f"alice@::1 READ TOPIC {name}" for name in names],
        )
        for pattern in stated
    }


def test_a_binding_is_for_its_principal_and_host() -> None:
    alice, bob = ("alice@10.0.0.1", "alice@10.0.0.2"), ("bob@10.0.0.1", "bob@10.0.0.2")
    clients = (*alice, *bob, "*@10.0.0.1", "Alice@10.0.0.1", "alice@::1")
    stated = {
        "alice@*": "++....+",
        "alice@10.0.0.1": "+......",
        "alice@10.0.0.2": ".+.....",
        "alice@::1": "......+",
        "bob@*": "..++...",
        "bob@10.0.0.1": "..+....",
        "*@*": "+++++++",
        "*@10.0.0.1": "+.+.++.",
        "*@10.0.0.2": ".+.+...",
    }
    assert stated == {
        who: row(acls(f"ALLOW {who} READ TOPIC pay"), [f"{client} READ TOPIC pay" for client in clients])
        for who in stated
    }


def test_a_binding_is_for_its_resource_type() -> None:
    types = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
    stated = {
        "TOPIC": "+ooooo",
        "GROUP": "o+oooo",
        "CLUSTER": "oo+ooo",
        "TRANSACTIONAL_ID": "ooo+oo",
        "DELEGATION_TOKEN": "oooo+o",
        "USER": "ooooo+",
    }
    assert stated == {
        bound: row(
            acls(f"ALLOW alice@* ALL {bound} x~"), [f"alice@::1 DESCRIBE {asked} x1" for asked in types]
        )
        for bound in stated
    }


def test_a_deny_of_any_pattern_goes_before_an_allow_of_any() -> None:
    """Columns: no DENY; one for the name, a prefix, a shorter one, each topic; the same four for bob."""
    denied = ("pay.eu", "pay.~", "p~", "*")
    stated = {
        None: "o----....",
        "pay.eu": "+----++++",
        "pay.~": "+----++++",
        "p~": "+----++++",
        "*": "+----++++",
    }
    denials = [
        [],
        *([f"DENY alice@* READ TOPIC {pattern}"] for pattern in denied),
        *([f"DENY bob@* READ TOPIC {pattern}"] for pattern in denied),
    ]
    assert stated == {
        pattern: "".join(
            mark(
                acls(*([] if pattern is None else [f"ALLOW alice@* READ TOPIC {pattern}"]), *denial),
                "alice@::1 READ TOPIC pay.eu",
            )
            for denial in denials
        )
        for pattern in stated
    }


def test_a_deny_for_any_subject_of_the_client_goes_before_an_allow_for_any() -> None:
    subjects = ("alice@::1", "alice@*", "*@::1", "*@*", "bob@*", "alice@::2")
    stated = {
        "alice@::1": "----++",
        "alice@*": "----++",
        "*@::1": "----++",
        "*@*": "----++",
        "bob@*": "----..",
        "alice@::2": "----..",
    }
    assert stated == {
        allowed: "".join(
            mark(
                acls(f"ALLOW {allowed} READ TOPIC pay", f"DENY {denied} READ TOPIC pay"),
                "alice@::1 READ TOPIC pay",
            )
            for denied in subjects
        )
        for allowed in stated
    }


def test_a_resource_is_open_to_everyone_if_so_set_and_no_binding_stands_for_it() -> None:
    """Columns: closed by default, open by default."""
    stated = {
        "ALLOW alice@* READ GROUP pay": "oO",
        "ALLOW bob@* READ TOPIC payroll": "oO",
        "DENY alice@* READ TOPIC payroll~": "oO",
        "ALLOW bob@* READ TOPIC pay": "..",
        "ALLOW bob@* WRITE TOPIC pa~": "..",
        "DENY bob@* READ TOPIC *": "..",
        "ALLOW alice@::9 READ TOPIC pay": "..",
        "ALLOW alice@* WRITE TOPIC pay": "..",
        "DENY alice@* WRITE TOPIC pay": "..",
        "ALLOW alice@* READ TOPIC pay": "++",
        "DENY alice@* READ TOPIC pay": "--",
    }
    assert stated == {
        line: "".join(
            mark(acls(line, open_by_default=is_open), "alice@::1 READ TOPIC pay") for is_open in (False, True)
        )
        for line in stated
    }
    assert mark(acls(open_by_default=True), "alice@::1 READ TOPIC pay") == "O"


def test_a_super_user_is_allowed_everything_and_its_name_is_compared_as_a_whole() -> None:
    clients = ("root@::1", "Root@::1", "roo@::1", "alice@::1", "*@::1")
    table = acls("DENY *@* ALL TOPIC *", "DENY root@* ALL TOPIC pay", super_users=["User:root", "User:*"])
    assert row(table, [f"{client} WRITE TOPIC pay" for client in clients]) == "S---S"
    assert row(table, [f"{client} WRITE TOPIC" for client in clients]) == "S---S"


#: For alice at ::1 and WRITE on any topic: closed by default, open by default.
ANY_TOPIC = {
    (): "oO",
    ("WRITE GROUP pay",): "oO",
    ("WRITE TOPIC pay",): "+O",
    ("ALL TOPIC pay",): "+O",
    ("READ TOPIC pay",): ".O",
    ("WRITE TOPIC pay~",): "+O",
    ("WRITE TOPIC *",): "++",
    ("READ TOPIC *",): "..",
    ("bob@* WRITE TOPIC pay",): ".O",
    ("bob@* WRITE TOPIC *",): "..",
    ("bob@* WRITE TOPIC *", "WRITE TOPIC pay"): "++",
    ("alice@::9 WRITE TOPIC pay",): ".O",
    ("*@* WRITE TOPIC pay",): "+O",
    ("*@::1 WRITE TOPIC pay",): "+O",
    ("!WRITE TOPIC pay",): ".O",
    ("!WRITE TOPIC *",): "--",
    ("WRITE TOPIC pay", "!WRITE TOPIC *"): "--",
    ("WRITE TOPIC *", "!WRITE TOPIC *"): "--",
    ("WRITE TOPIC *", "!WRITE TOPIC pay", "!WRITE TOPIC p~"): "++",
    ("WRITE TOPIC pay", "!bob@* WRITE TOPIC *"): "++",
    ("WRITE TOPIC pay", "!alice@::9 WRITE TOPIC *"): "++",
    ("WRITE TOPIC pay", "!READ TOPIC *"): "++",
    ("WRITE TOPIC pay", "!ALL TOPIC *"): "--",
    ("WRITE TOPIC pay", "!WRITE TOPIC pay"): "-O",
    ("WRITE TOPIC pay", "!ALL TOPIC pay"): "-O",
    ("WRITE TOPIC pay", "!READ TOPIC pay"): "+O",
    ("WRITE TOPIC pay", "!WRITE TOPIC pay.eu"): "+O",
    ("WRITE TOPIC pay", "!WRITE TOPIC pa"): "+O",
    ("WRITE TOPIC pay", "!WRITE TOPIC pa~"): "-O",
    ("WRITE TOPIC pay", "!WRITE TOPIC pay~"): "-O",
    ("WRITE TOPIC pay", "!WRITE TOPIC pay.~"): "+O",
    ("WRITE TOPIC pay", "!bob@* WRITE TOPIC pay"): "+O",
    ("WRITE TOPIC pay", "!alice@::9 WRITE TOPIC pay"): "+O",
    ("WRITE TOPIC pay", "!*@* WRITE TOPIC pay"): "-O",
    ("*@* WRITE TOPIC pay", "!WRITE TOPIC pay"): "-O",
    ("WRITE TOPIC pay~", "!WRITE TOPIC pay"): "+O",
    ("WRITE TOPIC pay~", "!WRITE TOPIC pay~"): "-O",
    ("WRITE TOPIC pay~", "!WRITE TOPIC p~"): "-O",
    ("WRITE TOPIC pay~", "!WRITE TOPIC pay.eu~"): "+O",
    ("WRITE TOPIC pay", "WRITE TOPIC fee", "!WRITE TOPIC pay"): "+O",
    ("WRITE TOPIC pay", "WRITE TOPIC fee", "!WRITE TOPIC pay", "!WRITE TOPIC f~"): "-O",
    # The prefix of the one character is no wildcard.
    ("WRITE TOPIC pay", "!WRITE TOPIC *~"): "+O",
    ("bob@* WRITE TOPIC *~",): ".O",
}


def any_topic_line(short: str) -> str:
    permission, rest = ("DENY", short[1:]) if short.startswith("!") else ("ALLOW", short)
    return f"{permission} {rest}" if "@" in rest else f"{permission} alice@* {rest}"


def test_write_on_any_topic_is_decided_by_what_no_deny_covers() -> None:
    answered = {
        lines: "".join(
            mark(acls(*map(any_topic_line, lines), open_by_default=is_open), "alice@::1 WRITE TOPIC")
            for is_open in (False, True)
        )
        for lines in ANY_TOPIC
    }
    assert answered == ANY_TOPIC


@pytest.mark.parametrize(
    ("question", "allowed", "reason", "binding"),
    [
        ("alice@::1 READ TOPIC pay", True, Reason.ALLOW_BINDING, "ALLOW alice@* READ TOPIC pay"),
        ("alice@::1 DESCRIBE TOPIC pay", True, Reason.ALLOW_BINDING, "ALLOW alice@* READ TOPIC pay"),
        ("alice@::1 READ TOPIC pays", True, Reason.ALLOW_BINDING, "ALLOW alice@* ALL TOPIC pa~"),
        ("bob@::1 READ TOPIC pay", True, Reason.ALLOW_BINDING, "ALLOW *@::1 READ TOPIC *"),
        ("alice@::1 DELETE TOPIC pay", False, Reason.DENY_BINDING, "DENY alice@* DELETE TOPIC p~"),
        ("alice@::1 WRITE TOPIC", True, Reason.ALLOW_BINDING, "ALLOW alice@* ALL TOPIC pa~"),
        ("alice@::1 DELETE TOPIC", False, Reason.DENY_BINDING, "DENY alice@* DELETE TOPIC p~"),
        ("bob@::1 WRITE TOPIC", False, Reason.NO_MATCHING_BINDING, None),
        ("root@::1 DELETE TOPIC pay", True, Reason.SUPER_USER, None),
    ],
)
def test_a_decision_names_the_most_specific_binding_or_the_rule(
    question: str, allowed: bool, reason: Reason, binding: str | None
) -> None:
    table = acls(
        "ALLOW alice@* READ TOPIC pay",
        "ALLOW alice@* ALL TOPIC pa~",
        "ALLOW alice@* READ TOPIC p~",
        "DENY alice@* DELETE TOPIC p~",
        "ALLOW *@::1 READ TOPIC *",
        super_users=["User:root"],
    )
    assert ask(table, question) == Decision(allowed, reason, None if binding is None else acl(binding))


LINES = (
    "ALLOW alice@* READ TOPIC a",
    "ALLOW alice@* WRITE TOPIC a",
    "DENY bob@* READ TOPIC a~",
    "ALLOW alice@* READ TOPIC ab",
    "ALLOW bob@* READ GROUP g",
)


def test_bindings_are_ordered_by_resource_and_held_once() -> None:
    assert acls(*reversed(LINES), *LINES).bindings == tuple(map(acl, LINES))


def test_a_changed_table_has_what_was_added_and_not_what_was_removed_and_the_first_stays() -> None:
    before = acls(*LINES, super_users=["User:root"], open_by_default=True)
    after = before.changed(
        version=2,
        added=[acl("ALLOW carol@* READ TOPIC c"), acl(LINES[0]), acl("ALLOW bob@* READ TOPIC z")],
        removed=[acl(LINES[2]), acl(LINES[4]), acl(LINES[4]), acl("ALLOW bob@* READ TOPIC z")],
    )
    lines = [LINES[0], LINES[1], LINES[3], "ALLOW carol@* READ TOPIC c", "ALLOW bob@* READ TOPIC z"]
    assert (before.version, before.bindings) == (1, tuple(map(acl, LINES)))
    assert (after.version, after.bindings) == (2, tuple(map(acl, lines)))
    questions = (
        *(
            f"{who}@::1 READ TOPIC {name}"
            for who in ("alice", "bob", "carol", "root")
            for name in ("a", "ab", "c", "z")
        ),
        "bob@::1 READ GROUP g",
    )
    assert row(before, questions) == "++OO" + "--OO" + "..OO" + "SSSS" + "+"
    assert row(after, questions) == "++.." + "...+" + "..+." + "SSSS" + "O"


FILTERED = (
    "ALLOW alice@* READ TOPIC *",
    "ALLOW alice@* READ TOPIC *~",
    "DENY bob@::1 WRITE TOPIC a",
    "ALLOW alice@* ALL TOPIC ab",
    "ALLOW bob@* READ TOPIC ab",
    "ALLOW alice@* READ TOPIC ab~",
    "ALLOW alice@* READ TOPIC aba",
    "DENY bob@* ALTER GROUP ab",
    "ALLOW alice@* DESCRIBE GROUP ab~",
    "ALLOW alice@* WRITE TRANSACTIONAL_ID a~",
)


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        (AclFilter(), "0123456789"),
        (AclFilter(resource_type=ResourceType.GROUP), "78"),
        (AclFilter(resource_type=ResourceType.USER), ""),
        (AclFilter(resource_name="ab"), "34578"),
        (AclFilter(resource_name="ab", pattern_type=PatternType.LITERAL), "347"),
        (AclFilter(resource_name="ab", pattern_type=PatternType.PREFIXED), "58"),
        (AclFilter(resource_name="ab", pattern_type=PatternType.MATCH), "0345789"),
        (AclFilter(resource_name="aba", pattern_type=PatternType.MATCH), "05689"),
        (AclFilter(resource_name="aba", pattern_type=PatternType.ANY), "6"),
        (AclFilter(resource_name="b", pattern_type=PatternType.MATCH), "0"),
        (AclFilter(resource_name="*", pattern_type=PatternType.MATCH), "01"),
        (AclFilter(resource_name="*", pattern_type=PatternType.LITERAL), "0"),
        (AclFilter(resource_name="*"), "01"),
        (AclFilter(resource_name=""), ""),
        (AclFilter(pattern_type=PatternType.MATCH), "0123456789"),
        (AclFilter(pattern_type=PatternType.PREFIXED), "1589"),
        (AclFilter(principal="User:bob"), "247"),
        (AclFilter(principal="User:*"), ""),
        (AclFilter(host="*"), "013456789"),
        (AclFilter(host="::1"), "2"),
        (AclFilter(operation=Operation.ALL), "3"),
        (AclFilter(operation=Operation.READ), "01456"),
        (AclFilter(permission=Permission.DENY), "27"),
        (AclFilter(ResourceType.TOPIC, "ab", PatternType.MATCH, "User:bob", "*", Operation.READ), "4"),
    ],
)
def test_a_filter_selects_in_order_what_it_matches(wanted: AclFilter, selected: str) -> None:
    table = acls(*FILTERED)
    assert list(table.select(wanted)) == [acl(FILTERED[int(place)]) for place in selected]
