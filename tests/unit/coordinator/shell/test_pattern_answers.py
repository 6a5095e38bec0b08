"""What patterns stand for, by the ACLs of the moment."""

from __future__ import annotations

import logging

import pytest
import trio

from coordinator.core.groups.consumer.groups import Who
from coordinator.core.groups.consumer.patterns import PatternAnswer, PatternQuestion
from coordinator.shell import pattern_answers
from coordinator.shell.pattern_answers import answer_patterns
from springtide.node.cluster_view import ClusterView
from springtide.security.acls.table import Acls
from tests.kit.springtide.acl_lines import acls

ALICE, BOB = Who("User:alice", "10.0.0.1"), Who("User:bob", "::ffff:10.0.0.2")
NAMES = ("orders-1", "orders-2", "pay", "xorders-1")


def answered(table: Acls, asked: dict[str, frozenset[Who]], names: tuple[str, ...] = NAMES) -> PatternAnswer:
    view = ClusterView()
    view.is_authorizer_on, view.acls = True, table
    return trio.run(answer_patterns, view, PatternQuestion("g", asked, names, 1))


def test_without_acls_all_that_match_are_shown() -> None:
    table = acls(open_by_default=True)
    assert answered(table, {"orders-.*": frozenset({ALICE}), "pay|x": frozenset({BOB})}) == {
        "orders-.*": ("orders-1", "orders-2"),
        "pay|x": ("pay",),
    }


def test_a_cluster_without_an_authorizer_shows_all() -> None:
    question = PatternQuestion("g", {".*": frozenset({ALICE})}, NAMES, 1)
    assert trio.run(answer_patterns, ClusterView(), question) == {".*": NAMES}


def test_all_subscribers_need_the_right() -> None:
    table = acls("ALLOW alice@* DESCRIBE TOPIC orders~", "ALLOW bob@10.0.0.2 READ TOPIC orders-2")
    assert answered(table, {".*": frozenset({ALICE})}) == {".*": ("orders-1", "orders-2")}
    assert answered(table, {".*": frozenset({ALICE, BOB})}) == {".*": ("orders-2",)}


def test_the_loop_goes_on_between_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_answers, "NAMES_PER_TURN", 1)
    assert answered(acls(open_by_default=True), {"pay": frozenset({ALICE})}) == {"pay": ("pay",)}


def test_too_wide_a_pattern_has_no_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_answers, "RESOLVED_BYTES_MAX", 10)
    with caplog.at_level(logging.WARNING):
        assert answered(acls(open_by_default=True), {".*": frozenset({ALICE})}) == {}
    assert "pattern_too_wide group=g topics=4" in caplog.text


def test_a_stored_pattern_that_the_engine_does_not_take_stands_for_nothing() -> None:
    assert answered(acls(open_by_default=True), {"(": frozenset({ALICE})}) == {"(": ()}
