"""Why a client may, or may not, do something: the decision in words, and what would change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import pytest

from admin_api.acls.explaining import DENYING_SHOWN_MAX, explain
from admin_api.acls.models import Explanation, binding_view
from springtide.contract.security import ALLOW_EVERYONE, SUPER_USERS, AclsOfPattern, PatternKey
from springtide.security.acls.model import AclBinding
from tests.kit.springtide.acl_lines import acl

READ = "ALLOW alice@10.0.0.7 READ TOPIC payments"


def stored(*lines: str) -> dict[PatternKey, AclsOfPattern]:
    def key(binding: AclBinding) -> PatternKey:
        return (binding.resource_type, binding.resource_name, binding.pattern_type)

    def of_pattern(pattern: PatternKey, bindings: Iterable[AclBinding]) -> AclsOfPattern:
        resource_type, name, pattern_type = pattern
        return AclsOfPattern(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            bindings=tuple(bindings),
        )

    patterns = groupby(sorted(acl(line) for line in lines), key=key)
    return {pattern: of_pattern(pattern, bindings) for pattern, bindings in patterns}


def ask(
    *lines: str, asked: str = READ, on: bool = True, configs: Mapping[str, str] | None = None
) -> Explanation:
    return explain(stored(*lines), configs or {}, acl(asked), is_authorizer_on=on)


@pytest.mark.parametrize(
    ("lines", "allowed", "words"),
    [
        (
            ["ALLOW *@* ALL TOPIC pay~"],
            True,
            "User:alice from 10.0.0.7 may read topic 'payments': a binding allows each user from each host "
            "everything on each topic whose name begins with 'pay'",
        ),
        (
            ["ALLOW alice@* READ TOPIC payments", "DENY alice@10.0.0.7 READ TOPIC *"],
            False,
            "User:alice from 10.0.0.7 may not read topic 'payments': a binding denies User:alice from "
            "10.0.0.7 read on each topic",
        ),
        (
            ["ALLOW bob@* READ TOPIC payments"],
            False,
            "User:alice from 10.0.0.7 may not read topic 'payments': the resource has bindings, and none of "
            "them is for this client and operation",
        ),
        (
            ["ALLOW alice@* READ TOPIC payments2", "ALLOW alice@* READ GROUP payments"],
            False,
            "User:alice from 10.0.0.7 may not read topic 'payments': the resource has no binding, and "
            "allow.everyone.if.no.acl.found is false",
        ),
    ],
)
def test_the_decision_is_told_in_words(lines: list[str], allowed: bool, words: str) -> None:
    told = ask(*lines)
    assert (told.allowed, told.allowed_by_acls, told.words) == (allowed, allowed, words)


def test_settings_of_the_cluster_decide_too() -> None:
    above = ask("DENY alice@* READ TOPIC *", configs={SUPER_USERS: "User:root;User:alice"})
    assert (above.allowed, above.reason, above.binding, above.remove) == (True, "super_user", None, [])
    assert above.words.endswith("it is a super user of the cluster")
    unclaimed = ask(configs={ALLOW_EVERYONE: "true"})
    assert (unclaimed.allowed, unclaimed.reason) == (True, "no_binding")
    assert unclaimed.words.endswith("allow.everyone.if.no.acl.found is true")


def test_without_an_authorizer_all_is_allowed_and_the_acls_are_told_all_the_same() -> None:
    told = ask("DENY *@* ALL TOPIC payments", on=False)
    assert (told.allowed, told.authorizer, told.allowed_by_acls) == (True, False, False)
    assert told.binding == binding_view(acl("DENY *@* ALL TOPIC payments"))


def test_what_would_allow_it_is_the_narrowest_binding() -> None:
    told = ask("ALLOW bob@* READ TOPIC payments")
    assert (told.remove, told.add) == ([], binding_view(acl(READ)))


def test_what_denies_it_would_have_to_go_first() -> None:
    denying = ["DENY alice@* ALL TOPIC pay~", "DENY *@10.0.0.7 READ TOPIC payments"]
    others = ["DENY alice@* WRITE TOPIC payments", "DENY bob@* READ TOPIC payments"]
    told = ask(*denying, *others)
    assert told.remove == [binding_view(binding) for binding in sorted(map(acl, denying))]
    assert told.add == binding_view(acl(READ))
    enough = ask(*denying, "ALLOW *@* READ TOPIC *")
    assert (len(enough.remove), enough.add) == (2, None)


def test_once_nothing_is_left_the_default_may_be_enough() -> None:
    told = ask("DENY alice@* READ TOPIC pay~", configs={ALLOW_EVERYONE: "true"})
    assert (len(told.remove), told.add) == (1, None)


def test_only_so_many_bindings_are_listed() -> None:
    asked = "ALLOW alice@10.0.0.7 READ TOPIC " + "p" * 200
    told = ask(*(f"DENY alice@* READ TOPIC {'p' * end}~" for end in range(1, 201)), asked=asked)
    assert len(told.remove) == DENYING_SHOWN_MAX
    assert told.add == binding_view(acl(asked))
