"""What is printed: tables for people, JSON as it came for programs, problems for both."""

from __future__ import annotations

import json

import httpx
import pytest
import yaml

from springtide.cli.tables import Table, cell, columns, describe
from tests.kit.springtide.cli import in_turn, ok, page, problem, run


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    table = Table(columns("topic #bytes isr"))
    assert table.lines([{"topic": "a", "bytes": 5, "isr": [1, 2]}, {"topic": "long", "bytes": 1200}]) == [
        "TOPIC  BYTES  ISR",
        "a          5  1,2",
        "long    1200  -",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert Table(columns("a b")).lines([{"a": "東京", "b": "x"}, {"a": "e\u0301", "b": "y"}]) == [
        "A     B",
        "東京  x",
        "e\u0301     y",
    ]


def test_a_later_page_keeps_the_first_ones_columns_and_cuts_nothing() -> None:
    table = Table(columns("a #b"))
    assert table.lines([{"a": "one", "b": 1}]) == ["A    B", "one  1"]
    assert table.lines([{"a": "eleven", "b": 11}]) == ["eleven  11"]


def test_an_empty_list_is_its_titles() -> None:
    assert Table(columns("a #b")).lines([]) == ["A  B"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        ([], "-"),
        ({}, "-"),
        ([1, 2], "1,2"),
        ({"a": "1", "b": None}, "a=1, b=-"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2028", "\\u2028"),
        ("东 é", "东 é"),
    ],
)
def test_a_cell_is_one_harmless_line(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_records_are_a_line_each_and_escapes_do_nothing() -> None:
    item = {"partition": 0, "offset": 7, "timestamp": "2026-11-21T09:30:00.000Z", "key": None}
    value = {"encoding": "text", "data": "\x1b[2J" + "x" * 200, "size_bytes": 204, "truncated": False}
    document = {
        "topic": "orders",
        "items": [{**item, "value": value}],
        "stopped": "end",
        "position": "0-8",
        "logs": [{"partition": 0, "log_start_offset": 0, "log_end_offset": 8}],
        "unread": [],
    }
    ran = run(in_turn(ok(document)), "records", "orders")
    lines = ran.out.splitlines()
    assert lines[:3] == ["stopped   end", "position  0-8", ""]
    assert lines[3].split() == ["P", "OFFSET", "TIME", "KEY", "VALUE"]
    assert lines[4].startswith("0       7  2026-11-21T09:30:00.000Z  -    \\x1b[2Jx")
    assert lines[4].endswith("x" * 200)


def test_one_resource_is_a_field_a_line_with_lists_below() -> None:
    document = {
        "name": "orders",
        "configs": {},
        "progress": {"moves": None, "bytes": 7},
        "steps": [{"name": "preflight", "state": "running", "n": 1}, {"name": "x", "state": "done", "n": 20}],
    }
    assert describe(document) == [
        "name            orders",
        "configs         -",
        "progress.moves  -",
        "progress.bytes  7",
        "steps:",
        "  NAME       STATE     N",
        "  preflight  running   1",
        "  x          done     20",
    ]


def test_show_prints_the_etag_that_if_match_takes() -> None:
    ran = run(in_turn(ok({"name": "orders"}, ETag='"17.ab"')), "topics", "show", "orders")
    assert ran.out == 'name  orders\netag: "17.ab"\n'


def test_configs_are_the_only_field_shown() -> None:
    answer = in_turn(ok({"name": "orders", "configs": {"min.insync.replicas": "2"}}))
    assert run(answer, "topics", "configs", "orders").out == "min.insync.replicas  2\n"
    as_json = run(answer, "topics", "configs", "orders", "--output", "json")
    assert json.loads(as_json.out) == {"min.insync.replicas": "2"}


def test_json_is_what_the_api_answered_to_the_byte() -> None:
    body = b'{ "name":"\xc3\xbc", "big": 9007199254740993, "float": 1.10 }'
    ran = run(in_turn(httpx.Response(200, content=body)), "topics", "show", "t", "--output", "json")
    assert ran.out.encode() == body + b"\n"


def test_pages_are_followed_to_the_end_and_printed_as_one() -> None:
    first = httpx.Response(
        200, content=b'{"as_of":null,"items":[{"n": 1.50},{"n":2}],"next_page_token":"p2","is_complete":true}'
    )
    answer = in_turn(first, page([{"n": 3}], None, as_of=None, is_complete=True))
    ran = run(answer, "assignment", "--output", "json")
    assert ran.out == (
        '{"as_of":null,"is_complete":true,"items":[{"n": 1.50},\n{"n":2},\n{"n":3}],"next_page_token":null}\n'
    )
    assert [dict(request.url.params) for request in ran.asked] == [
        {"limit": "1000"},
        {"limit": "1000", "page_token": "p2"},
    ]


def test_a_table_comes_page_by_page_with_one_title() -> None:
    answer = in_turn(page([{"code": "a"}], "p2"), page([{"code": "b"}]))
    lines = run(answer, "problems", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["CODE", "a", "b"]


def test_what_is_about_the_whole_list_stands_once_before_it() -> None:
    answer = in_turn(
        page([{"topic": "a"}], "p2", is_complete=False), page([{"topic": "b"}], is_complete=False)
    )
    lines = run(answer, "assignment").out.splitlines()
    assert lines[:2] == ["is_complete  no", ""]
    assert [line.split()[0] for line in lines[2:]] == ["TOPIC", "a", "b"]


def test_filters_stay_with_every_page() -> None:
    answer = in_turn(page([], "p2"), page([]))
    ran = run(answer, "audit", "list", "--topic", "orders", SPRINGTIDE_CLUSTER="")
    assert [request.url.params.get("topic") for request in ran.asked] == ["orders", "orders"]


def test_a_limit_ends_the_list_early_and_keeps_the_token() -> None:
    answer = in_turn(page([{"n": 1}, {"n": 2}], "p2"), page([{"n": 3}], "p3"), page([{"n": 4}]))
    ran = run(answer, "topics", "list", "--limit", "3", "--output", "json")
    assert json.loads(ran.out) == {"items": [{"n": 1}, {"n": 2}, {"n": 3}], "next_page_token": "p3"}
    assert [request.url.params["limit"] for request in ran.asked] == ["3", "1"]


def test_a_list_that_has_no_pages_is_not_asked_for_any() -> None:
    answer = in_turn(ok({"topic": "orders", "items": []}))
    ran = run(answer, "partitions", "explain", "orders", "0", "--output", "json")
    assert (ran.status, ran.asked[0].url.query) == (0, b"")
    assert json.loads(ran.out) == {"topic": "orders", "items": []}


def test_a_refusal_says_what_where_and_what_to_do() -> None:
    refusal = problem(
        422,
        "replication_factor_too_large",
        title="The replication factor exceeds the eligible brokers",
        detail="3 are needed, 2 are active",
        errors=[
            {"pointer": "/replication_factor", "message": "must be at most 2", "limit": 2},
            {"parameter": "sort", "message": "unknown"},
            {"header": "If-Match", "message": "is needed"},
        ],
        hint="admit another broker",
        request_id="r1",
    )
    ran = run(in_turn(refusal), "topics", "create", "orders")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "springtide: The replication factor exceeds the eligible brokers (replication_factor_too_large, 422)",
        "  3 are needed, 2 are active",
        "  /replication_factor: must be at most 2",
        "  sort: unknown",
        "  If-Match: is needed",
        "  hint: admit another broker",
        "  request: r1",
    ]


def test_a_detail_that_only_repeats_a_fields_error_is_said_once() -> None:
    errors = [{"pointer": "/partitions", "message": "too many"}]
    ran = run(
        in_turn(problem(422, "x", detail="/partitions: too many", errors=errors)), "topics", "create", "t"
    )
    assert ran.err.count("too many") == 1


def test_a_refusal_under_json_is_the_document() -> None:
    ran = run(in_turn(problem(404, "topic_not_found")), "topics", "show", "t", "--output", "json")
    assert (ran.status, ran.out) == (1, "")
    assert json.loads(ran.err)["code"] == "topic_not_found"


NAMES = ["yes", "1.0", "2026-11-21", "null", "a: b", "\u6771", "\x1b[2J", "two\nlines", ""]


def test_yaml_is_the_document_of_json() -> None:
    document = {"name": "orders", "configs": {}, "isr": [1, 2], "size": 2**62, "part": 1e16, "names": NAMES}
    ran = run(in_turn(ok(document)), "topics", "show", "orders", "--output", "yaml")
    assert (ran.status, yaml.safe_load(ran.out)) == (0, document)
    assert ran.out.splitlines()[:3] == ["---", "name: orders", "configs: {}"]
    assert "\x1b" not in ran.out


def test_the_pages_of_a_list_are_one_yaml_document() -> None:
    pages = in_turn(page([{"name": "a"}, {"name": "b"}], "next"), page([{"name": "c"}]))
    ran = run(pages, "topics", "list", "--output", "yaml")
    assert yaml.safe_load(ran.out) == {"items": [{"name": n} for n in "abc"], "next_page_token": None}


def test_a_refusal_under_yaml_is_the_document() -> None:
    ran = run(in_turn(problem(404, "topic_not_found")), "topics", "show", "t", "--output", "yaml")
    assert (ran.status, ran.out) == (1, "")
    assert yaml.safe_load(ran.err)["code"] == "topic_not_found"


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_proxys_page_is_quoted_without_its_control_characters(output: str) -> None:
    answer = in_turn(httpx.Response(403, content=b"<b>\x1b[31mno\n"))
    ran = run(answer, "topics", "show", "t", "--output", output)
    assert ran.status == 1
    assert ran.err == "springtide: refused with status 403\n  <b>\\x1b[31mno\n"


@pytest.mark.parametrize(("age_ms", "says"), [("150", False), ("12000", True)])
def test_an_old_answer_of_a_standby_is_told_to_be(age_ms: str, says: bool) -> None:
    ran = run(in_turn(ok({}, Data_Age_Ms=age_ms)), "topics", "show", "t")
    assert ("this answer is 12 s old" in ran.err) is says
