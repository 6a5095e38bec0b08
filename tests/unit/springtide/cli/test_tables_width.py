"""A table fits its terminal: columns are shortened or left out by one rule, and no row becomes two lines."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.cli.catalogue import COMMANDS
from springtide.cli.command import Command, CommandKind
from springtide.cli.tables import GAP, Table, columns, columns_of, cut, describe, fitted, width_of
from tests.kit.admin_api.canned import CannedController
from tests.kit.springtide.cli import Network, in_turn, page

LISTS = [command for command in COMMANDS if command.kind is CommandKind.LIST]


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 30)), min_size=1, max_size=20),
    st.integers(10, 200),
)
def test_columns_fit_any_room_and_none_is_wider_than_it_needs(
    wanted: list[tuple[int, int]], room: int
) -> None:
    widths = [max(pair) for pair in wanted]
    least = [min(pair) for pair in wanted]
    found = fitted(widths, least, room)
    assert sum(found) + len(GAP) * (len(found) - 1) <= room
    assert all(one <= wide for one, wide in zip(found, widths, strict=False))
    if len(found) > 1:
        assert all(one >= need for one, need in zip(found, least, strict=False))
    if len(found) < len(widths):
        more = len(found) + 1
        assert sum(least[:more]) + len(GAP) * len(found) > room, "one more would have fitted"
    elif sum(widths) + len(GAP) * (len(widths) - 1) <= room:
        assert found == widths, "nothing is cut without need"


def test_the_widest_text_is_shortened_and_numbers_and_names_are_not() -> None:
    items = [{"name": "orders", "why": "x" * 40, "n": 123_456_789}, {"name": "a", "why": "short", "n": 1}]
    assert Table(columns("name why #n"), width=36).lines(items) == [
        "NAME    WHY                        N",
        "orders  xxxxxxxxxxxxxxxx…  123456789",
        "a       short                      1",
    ]


def test_what_has_no_room_is_left_out_from_the_right_and_named() -> None:
    table = Table(columns("name #n why #m"), width=30)
    lines = table.lines([{"name": "orders", "n": 12_345_678, "why": "y" * 9, "m": 123}])
    assert lines == ["NAME           N  WHY", "orders  12345678  yyyyyyyyy"]
    assert table.notes() == ["(columns left out: 1; --output json has all)"]
    assert Table(columns("name #m"), width=30).notes() == []


def test_a_later_page_with_longer_cells_fits_too() -> None:
    table = Table(columns("name why #n"), width=24)
    assert table.lines([{"name": "a", "why": "b", "n": 1}]) == ["NAME  WHY  N", "a     b    1"]
    (line,) = table.lines([{"name": "x" * 30, "why": "y" * 30, "n": 12}])
    assert line == "xxx…  yy…  …"
    (line,) = table.lines([{"name": "xxxxxx", "why": "yyyyyy", "n": 12}])
    assert line == "xxxxxx  yyyyyy  12", "there is room"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("東京都", 5, "東京…"), ("東京都", 4, "東…"), ("abc", 1, "…")],
)
def test_a_text_is_cut_by_the_columns_that_it_takes(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown
    assert width_of(cut(text, width)) <= width


def test_amounts_are_told_in_words() -> None:
    table = Table(columns("#size:bytes #late:ms"))
    assert table.lines([{"size": 402_653_184, "late": 4_200}, {"size": None, "late": 0}])[1:] == [
        "384.0 MiB   5 s",
        "        -   0 s",
    ]


def test_of_columns_that_are_not_declared_ids_and_epochs_come_last() -> None:
    items = [{"broker_id": 1, "topic_id": "x", "topic": "orders", "leader_epoch": 3, "state": "online"}]
    assert [one.path for one in columns_of(items)] == [
        "broker_id",
        "topic",
        "state",
        "topic_id",
        "leader_epoch",
    ]
    assert columns_of([{"a": None}]) == columns_of([]) == []


class _Options(Namespace):
    def __getattr__(self, name: str) -> Any:
        return None


def _items(command: Command) -> list[dict[str, Any]]:
    """Items as the API's document shows them."""
    options = _Options(cluster="prod", topic="orders", partition=0, operation_id="op_1", plan_id="plan_1")
    _, shown = CannedController().answer("GET", f"/{command.call(options).path.lstrip('/')}", "")
    items: list[dict[str, Any]] = shown.get("items") or [{}]
    return items


@pytest.mark.parametrize("width", [20, 80, 132])
@pytest.mark.parametrize("command", LISTS, ids=lambda command: "-".join(command.words))
def test_every_list_fits_its_terminal(command: Command, width: int) -> None:
    lines = Table(command.columns, width=width).lines(_items(command))
    assert len(lines) == 1 + len(_items(command))
    assert max(map(width_of, lines)) <= width


def test_what_adding_a_broker_would_do_fits_eighty_columns_and_shows_each_move() -> None:
    _, plan = CannedController().answer("POST", "/clusters/prod/brokers", "dry_run=true")
    lines = describe(plan, width=80)
    assert [line.split()[0] for line in lines if width_of(line) > 80] == ["content_hash"], "no table, no row"
    title = next(line for line in lines if "REPLICAS_BEFORE" in line or "REPLICAS_" in line)
    assert title.split()[:2] == ["POSITION", "TOPIC"]
    moves = lines[lines.index(title) + 1 :][: plan["moves"]]
    assert [line.split()[0] for line in moves] == [str(number) for number in range(plan["moves"])]


@pytest.mark.parametrize(("width", "is_cut"), [(40, True), (None, False)])
def test_the_terminal_is_told_of_columns_that_are_left_out(width: int | None, is_cut: bool) -> None:
    topic = {"name": "o" * 60, "state": "online", "partitions": 12}
    ran = Network(in_turn(page([topic]))).run("topics", "list", width=width)
    assert ("--output json has all" in ran.err) is is_cut
    assert all(len(line) <= 40 for line in ran.out.splitlines()) is is_cut
    assert ran.out.startswith("TOPIC"), "the note is not among the rows"


def test_lists_are_asked_for_in_an_order_and_by_a_part_of_a_name() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return page([])

    for words, asked in {
        ("groups", "list"): {"sort": "-lag"},
        ("groups", "list", "--sort=group_id", "--search", "bill"): {"sort": "group_id", "search": "bill"},
        ("topics", "list", "--sort=-bytes_in"): {"sort": "-bytes_in"},
        ("brokers", "list", "--sort=-disk_used", "--search=r2"): {"sort": "-disk_used", "search": "r2"},
    }.items():
        ran = Network(answer).run(*words)
        assert {name: value for name, value in ran.asked[0].url.params.items() if name != "limit"} == asked
