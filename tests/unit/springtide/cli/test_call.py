"""What each command asks of the API, and that the API has it."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from springtide.cli.call import Call, UsageError, address
from springtide.cli.catalogue import COMMANDS
from springtide.cli.command import Command, CommandKind
from springtide.cli.parser import build_parser
from springtide.cli.run import Exit
from tests.kit.admin_api.document import parameters_of
from tests.kit.springtide.cli import body_of, ok, run

OPENAPI = json.loads((Path(__file__).parents[4] / "openapi" / "springtide.json").read_text())


def first_request(line: str) -> httpx.Request:
    return run(lambda request: ok({"items": []}), *shlex.split(line)).asked[0]


def test_a_topic_is_created_from_kafkas_options() -> None:
    request = first_request(
        "topics create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2 "
        "--config retention.ms=1=2 --if-not-exists --reason Monday"
    )
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/topics")
    assert body_of(request) == {
        "name": "orders",
        "partitions": 12,
        "replication_factor": 3,
        "configs": {"min.insync.replicas": "2", "retention.ms": "1=2"},
        "if_not_exists": True,
        "reason": "Monday",
    }


def test_what_is_left_out_is_left_to_the_cluster() -> None:
    assert body_of(first_request("topics create orders")) == {"name": "orders", "configs": {}}


def test_an_assignment_is_written_as_kafkas_tools_write_it() -> None:
    body = body_of(first_request("topics create orders --replica-assignment 1:2:3,2:3:1"))
    assert body["assignments"] == [[1, 2, 3], [2, 3, 1]]


def test_brokers_are_added_in_one_request() -> None:
    request = first_request("brokers add 4@store4:9092/r2 5@[fd00::5]:9092 --rebalance none")
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/brokers")
    assert body_of(request) == {
        "brokers": [
            {"broker_id": 4, "endpoint": "store4:9092", "rack": "r2"},
            {"broker_id": 5, "endpoint": "[fd00::5]:9092"},
        ],
        "rebalance": {"mode": "none"},
    }


def test_a_broker_takes_anothers_place() -> None:
    request = first_request("brokers replace 3 5@store5:9092/r1 --throttle 1000")
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/brokers")
    assert body_of(request) == {
        "brokers": [{"broker_id": 5, "endpoint": "store5:9092", "rack": "r1", "replaces": 3}],
        "rebalance": {"throttle_bytes_per_s": 1000},
    }


def test_a_broker_is_drained_at_a_rate_and_later() -> None:
    request = first_request(
        "brokers drain 3 --throttle 50000000 --max-concurrent-moves 4 --not-before 2026-11-22T02:00:00Z"
    )
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/brokers/3:drain")
    assert body_of(request) == {
        "throttle_bytes_per_s": 50_000_000,
        "max_concurrent_moves": 4,
        "not_before": "2026-11-22T02:00:00Z",
    }
    assert body_of(first_request("brokers drain 3")) == {}


def test_moves_have_a_time_of_day() -> None:
    night = {"start": "22:00", "end": "06:00", "utc_offset": "Z"}
    assert body_of(first_request("brokers drain 3 --window 22:00-06:00")) == {"window": night}
    east = first_request("operations window op_1 22:00-06:00+01:00")
    assert (east.method, east.url.path) == ("PATCH", "/operations/op_1")
    assert body_of(east) == {"window": night | {"utc_offset": "+01:00"}}
    assert body_of(first_request("operations window op_1 none")) == {"window": None}


def test_a_plan_has_destinations_floors_and_brokers_that_come_and_go() -> None:
    request = first_request("plans make --onto 4 --drain 1 --counts-only --floor-percent 5 --to rack:r2")
    assert body_of(request) == {
        "goal": {
            "kind": "rebalance",
            "mode": "new_only",
            "new_broker_ids": [4],
            "drain_broker_ids": [1],
            "disk_target_permille": None,
            "floor_percent": 5,
        },
        "destinations": {"include": ["rack:r2"], "exclude": []},
    }
    relief = body_of(first_request("plans make --relieve 3:70"))
    assert relief == {"goal": {"kind": "relieve", "broker_id": 3, "used_percent": 70}}
    evened = body_of(first_request("plans make --even-out disk --even-out bytes_in --even-out-bytes-max 9"))
    assert evened == {"goal": {"kind": "even_out", "weights": ["disk", "bytes_in"], "bytes_max": 9}}


def test_a_deletion_has_its_reason_in_the_query_and_its_condition_in_a_header() -> None:
    request = first_request("""topics delete orders --reason 'two words' --if-match '"17.ab"' --dry-run""")
    assert (request.method, request.url.path) == ("DELETE", "/clusters/prod/topics/orders")
    assert dict(request.url.params) == {"dry_run": "true", "reason": "two words"}
    assert request.headers["if-match"] == '"17.ab"'
    assert request.content == b""


def test_records_are_deleted_before_one_place() -> None:
    request = first_request("partitions delete-records orders 3 --before-offset 0 --reason broken")
    assert request.url.path == "/clusters/prod/topics/orders/partitions/3:delete-records"
    assert body_of(request) == {"before_offset": 0, "reason": "broken"}
    assert body_of(first_request("partitions delete-records orders 3 --all")) == {"all": True}
    for line in ("", "--all --before-offset 3"):
        done = run(lambda _: ok({}), *shlex.split(f"partitions delete-records orders 3 {line}"))
        assert (done.status, done.asked) == (Exit.USAGE, [])


def test_the_history_of_settings_is_narrowed_and_a_change_undone_by_its_number() -> None:
    request = first_request("configs history retention.ms --topic orders")
    assert request.url.path == "/clusters/prod/config-changes"
    assert {"topic": "orders", "name": "retention.ms"}.items() <= dict(request.url.params).items()
    assert first_request("configs history --defaults").url.params["defaults"] == "true"
    undo = first_request("""configs undo 17 --reason mistake --if-match '"3.ab"'""")
    assert (undo.method, undo.url.path) == ("POST", "/clusters/prod/config-changes/17:undo")
    assert (body_of(undo), undo.headers["if-match"]) == ({"reason": "mistake"}, '"3.ab"')


def test_elections_name_their_kind() -> None:
    preferred = first_request("elect-leader orders 0")
    assert preferred.url.path == "/clusters/prod/topics/orders/partitions/0:elect-leader"
    assert body_of(preferred) == {"election": "preferred"}
    unclean = first_request(
        "elect-leader orders 0 --election-type unclean --broker-id 2 --partition-epoch 0 --reason lost"
    )
    assert body_of(unclean) == {
        "election": "unclean",
        "broker_id": 2,
        "partition_epoch": 0,
        "reason": "lost",
    }


def test_an_unclean_election_is_not_asked_for_by_half() -> None:
    ran = run(
        lambda request: ok({}),
        "elect-leader",
        "orders",
        "0",
        "--election-type",
        "unclean",
        "--broker-id",
        "2",
    )
    assert (ran.status, ran.asked) == (2, [])
    assert "--partition-epoch, --reason too" in ran.err


def test_coordinators_are_admitted_drained_demoted_and_taken_back() -> None:
    admit = first_request("coordinators admit 1001 1002 --reason first")
    assert (admit.method, admit.url.path) == ("POST", "/clusters/prod/coordinators")
    assert body_of(admit) == {"coordinator_ids": [1001, 1002], "reason": "first"}
    drain = first_request("""coordinators drain 1001 --if-match '"3"'""")
    assert (drain.method, drain.url.path) == ("PATCH", "/clusters/prod/coordinators/1001")
    assert (body_of(drain), drain.headers["if-match"]) == ({"draining": True}, '"3"')
    assert body_of(first_request("coordinators demote 1001")) == {"demoted": True}
    assert body_of(first_request("coordinators return 1001")) == {"draining": False, "demoted": False}
    assert first_request("coordinators remove 1001").method == "DELETE"


def test_a_group_is_only_reset_with_execute() -> None:
    line = "groups reset a/b --topic orders --topic bills:0,3 --shift-by -10 --reason late"
    body = {
        "to": {"kind": "shift", "by": -10},
        "topics": ["orders"],
        "partitions": [{"topic": "bills", "partition": 0}, {"topic": "bills", "partition": 3}],
        "reason": "late",
    }
    for shown in (line, f"{line} --dry-run"):
        tried = first_request(shown)
        assert tried.method == "POST"
        assert tried.url.raw_path == b"/clusters/prod/groups/a%2Fb:reset-offsets?dry_run=true"
        assert body_of(tried) == body
    done = first_request(f"{line} --execute")
    assert (done.url.raw_path, body_of(done)) == (b"/clusters/prod/groups/a%2Fb:reset-offsets", body)


@pytest.mark.parametrize(
    ("option", "to"),
    [
        ("--to-earliest", {"kind": "earliest"}),
        ("--to-latest", {"kind": "latest"}),
        ("--to-offset 0", {"kind": "offset", "offset": 0}),
        ("--to-datetime 2026-11-21T09:30:00Z", {"kind": "time", "time": "2026-11-21T09:30:00Z"}),
        ("--shift-by +5", {"kind": "shift", "by": 5}),
    ],
)
def test_a_group_is_reset_to_one_place(option: str, to: dict[str, Any]) -> None:
    assert body_of(first_request(f"groups reset billing --all-topics {option}")) == {"to": to}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--all-topics", "say where to"),
        ("--all-topics --to-latest --to-offset 3", "say where to"),
        ("--to-latest", "say which partitions"),
        ("--to-latest --all-topics --topic orders", "say which partitions"),
        ("--to-latest --all-topics --execute --dry-run", "exclude each other"),
    ],
)
def test_a_reset_that_is_not_clear_is_not_asked_for(options: str, told: str) -> None:
    ran = run(lambda request: ok({}), "groups", "reset", "billing", *options.split())
    assert (ran.status, ran.asked) == (2, [])
    assert told in ran.err


def test_groups_are_listed_shown_and_deleted() -> None:
    listed = first_request("groups list --state empty --prefix bill")
    assert dict(parse_qsl(listed.url.query.decode())) | {"limit": ""} == {
        "state": "empty",
        "prefix": "bill",
        "sort": "-lag",
        "limit": "",
    }
    assert first_request("groups show 'a b'").url.raw_path == b"/clusters/prod/groups/a%20b"
    deleted = first_request("groups delete ä --yes --reason old")
    assert (deleted.method, deleted.url.raw_path) == ("DELETE", b"/clusters/prod/groups/%C3%A4?reason=old")


def test_the_rebalances_of_a_group_are_a_line_each() -> None:
    told = {
        "reason": "member a left",
        "took_ms": 3_000,
        "partitions_moved": 4,
        "state": "superseded",
        "began_at": "2026-12-01T03:00:00.000Z",
        "waiting_for_total": 2,
    }
    ran = run(lambda request: ok({"items": [told]}), "groups", "rebalances", "a b", columns=150)
    assert ran.asked[0].url.raw_path == b"/clusters/prod/rebalances/a%20b"
    assert ran.status == 0
    assert all(part in ran.out for part in ("member a left", "3 s", "superseded", "2026-12-01")), ran.out


def test_a_look_at_records_begins_at_one_place() -> None:
    path = "/clusters/prod/topics/orders/records"
    words = "records orders --partition 3 --offset 17 --limit 5 --key a --ignore-case --format hex"
    asked = first_request(words)
    assert (asked.url.path, dict(asked.url.params)) == (
        path,
        {"partition": "3", "offset": "17", "limit": "5", "key": "a", "ignore_case": "true", "format": "hex"},
    )
    for words, query in (
        ("", {}),
        ("--newest", {}),
        ("--earliest", {"start": "earliest"}),
        ("--at 2026-11-21T09:30:00Z", {"timestamp": "2026-11-21T09:30:00Z"}),
        ("--position 0-1.1-2 --max-bytes 9000", {"position": "0-1.1-2", "max_bytes": "9000"}),
    ):
        assert dict(first_request(f"records orders {words}").url.params) == query
    for words, told in (
        ("--offset 3", "add --partition"),
        ("--newest --earliest", "--newest and --earliest exclude each other"),
        ("--partition 0 --offset 3 --at 2026-11-21T09:30:00Z", "--offset and --at exclude each other"),
    ):
        ran = run(lambda request: ok({}), "records", "orders", *words.split())
        assert (ran.status, ran.asked) == (2, [])
        assert told in ran.err


def test_partitions_are_a_topics_or_the_clusters() -> None:
    assert first_request("partitions list orders").url.path == "/clusters/prod/topics/orders/partitions"
    assert first_request("partitions list").url.path == "/clusters/prod/partitions"


def test_a_broker_is_cordoned_demoted_and_taken_back() -> None:
    cordon = first_request("brokers cordon 3 --reason full")
    assert (cordon.method, cordon.url.path) == ("PATCH", "/clusters/prod/brokers/3")
    assert body_of(cordon) == {"cordoned": True, "reason": "full"}
    assert body_of(first_request("brokers uncordon 3")) == {"cordoned": False}
    demote = first_request("""brokers demote 3 --if-match '"1.a"'""")
    assert (demote.method, demote.url.path) == ("POST", "/clusters/prod/brokers/3:demote")
    assert (body_of(demote), demote.headers["if-match"]) == ({}, '"1.a"')
    assert first_request("brokers return 3").url.path == "/clusters/prod/brokers/3:return"
    remove = first_request("brokers remove 3 --reason old")
    assert (remove.method, str(remove.url.copy_with(query=None)), dict(remove.url.params)) == (
        "DELETE",
        "http://ctl1:8080/clusters/prod/brokers/3",
        {"reason": "old"},
    )


def test_preferred_leaders_are_elected_for_all_for_topics_or_for_partitions() -> None:
    everything = first_request("elect-preferred")
    assert everything.url.path == "/clusters/prod/partitions:elect-preferred"
    assert body_of(everything) == {}
    assert body_of(first_request("elect-preferred a b")) == {"topics": ["a", "b"]}
    assert body_of(first_request("elect-preferred --partition a-b-0 --partition c-12")) == {
        "partitions": [{"topic": "a-b", "partition": 0}, {"topic": "c", "partition": 12}]
    }
    both = run(lambda request: ok({}), "elect-preferred", "a", "--partition", "a-0")
    assert (both.status, both.asked) == (2, [])


def test_a_topic_gets_more_partitions() -> None:
    request = first_request("topics add-partitions orders 13 --replica-assignment 2:3:1")
    assert (request.method, request.url.path) == ("PATCH", "/clusters/prod/topics/orders")
    assert body_of(request) == {"partitions": 13, "assignments": [[2, 3, 1]]}


def test_settings_are_set_and_unset_in_one_request() -> None:
    line = "configs alter retention.ms=5 min.insync.replicas=2 --topic orders --unset segment.ms"
    request = first_request(line)
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/topics/orders/configs:alter")
    assert body_of(request) == {
        "configs": {"retention.ms": "5", "min.insync.replicas": "2", "segment.ms": None}
    }
    of_broker = first_request("configs alter --broker 0 a=1")
    assert of_broker.url.path == "/clusters/prod/brokers/0/configs:alter"
    assert first_request("configs alter --defaults a=1").url.path == "/clusters/prod/configs:alter"
    assert first_request("configs show a --defaults").url.path == "/clusters/prod/configs/a"


@pytest.mark.parametrize(
    "line",
    [
        "configs alter --topic orders",
        "configs alter --topic orders a=1 --unset a",
        "configs alter --topic orders a=1 a=2",
        "configs alter a=1",
        "configs alter a=1 --topic orders --defaults",
        "configs list --broker 0 --topic orders",
    ],
)
def test_whose_settings_and_which_values_is_never_guessed(line: str) -> None:
    ran = run(lambda request: ok({}), *line.split())
    assert (ran.status, ran.asked) == (2, [])


def test_a_move_is_throttled_at_its_start_and_later() -> None:
    start = first_request("reassignments start orders 0 4:2:3 --throttle 500")
    assert body_of(start) == {"replicas": [4, 2, 3], "throttle_bytes_per_s": 500}
    later = first_request("operations throttle op_1 700 --reason night")
    assert (later.method, later.url.path) == ("PATCH", "/operations/op_1")
    assert body_of(later) == {"throttle_bytes_per_s": 700, "reason": "night"}
    assert body_of(first_request("operations throttle op_1 none")) == {"throttle_bytes_per_s": None}


def test_replicas_are_moved_and_brought_back() -> None:
    start = first_request("reassignments start orders 0 4:2:3 --reason old")
    assert (start.method, start.url.path) == ("PUT", "/clusters/prod/topics/orders/partitions/0/assignment")
    assert body_of(start) == {"replicas": [4, 2, 3], "reason": "old"}
    cancel = first_request("reassignments cancel orders 0 --reason slow --dry-run")
    assert (cancel.method, cancel.url.path) == ("DELETE", start.url.path)
    assert dict(cancel.url.params) == {"dry_run": "true", "reason": "slow"}
    stopped = first_request("operations cancel op_1 --reason slow")
    assert (stopped.method, stopped.url.path) == ("POST", "/operations/op_1:cancel")
    assert body_of(stopped) == {"reason": "slow"}


def test_acls_are_added_for_each_operation_and_resource() -> None:
    request = first_request(
        "acls add User:billing Read,describe topic:pay:1 cluster --prefixed --deny --host ::1"
    )
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/acls")
    about = {
        "principal": "User:billing",
        "host": "::1",
        "pattern_type": "prefixed",
        "permission": "deny",
    }
    topic = {"resource_type": "topic", "resource_name": "pay:1"}
    cluster = {"resource_type": "cluster", "resource_name": "kafka-cluster"}
    assert body_of(request) == {
        "bindings": [
            {**resource, **about, "operation": operation}
            for resource in (topic, cluster)
            for operation in ("read", "describe")
        ]
    }
    (one,) = body_of(first_request("acls add User:a all group:*"))["bindings"]
    assert one == {
        "resource_type": "group",
        "resource_name": "*",
        "principal": "User:a",
        "operation": "all",
    }


def test_acls_are_removed_by_what_they_have_in_common() -> None:
    request = first_request("acls remove --principal User:a --pattern-type match --resource-name x --dry-run")
    assert request.url.raw_path == b"/clusters/prod/acls:delete?dry_run=true"
    assert body_of(request) == {"principal": "User:a", "pattern_type": "match", "resource_name": "x"}
    everything = run(lambda request: ok({}), "acls", "remove", "--pattern-type", "literal")
    assert (everything.status, everything.asked) == (2, [])


def test_an_explanation_is_asked_for_without_changing_anything() -> None:
    request = first_request("acls explain User:alice READ topic:a/b --host 10.0.0.7")
    assert (request.method, request.url.path) == ("GET", "/clusters/prod/acls:explain")
    assert dict(request.url.params) == {
        "principal": "User:alice",
        "operation": "read",
        "resource_type": "topic",
        "resource_name": "a/b",
        "host": "10.0.0.7",
    }
    asked = ("acls", "explain", "User:alice", "--request", "POST /clusters/prod/topics", "--topic", "orders")
    (request,) = run(lambda request: ok({}), *asked).asked
    assert dict(request.url.params) == {
        "principal": "User:alice",
        "request": "POST /clusters/prod/topics",
        "resource_name": "orders",
    }


def test_a_password_comes_from_standard_input() -> None:
    ran = run(lambda request: ok({}), "users", "set", "a/b", "--iterations", "8192", piped="p w \r\nmore")
    (request,) = ran.asked
    assert (request.method, request.url.raw_path) == ("PUT", b"/clusters/prod/users/a%2Fb")
    assert body_of(request) == {"password": "p w ", "iterations": 8192}
    assert "p w" not in ran.out + ran.err


@pytest.mark.parametrize("piped", ["", "\n", "x" * 1_001])
def test_a_password_that_is_none_is_not_sent(piped: str) -> None:
    ran = run(lambda request: ok({}), "users", "set", "billing", piped=piped)
    assert (ran.status, ran.asked) == (2, [])


def test_quotas_are_set_and_unset_for_one_entity() -> None:
    request = first_request("quotas set producer_byte_rate=1e6 request_percentage=2.5 --user '<default>'")
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/quotas:alter")
    quotas: dict[str, float | None] = {"producer_byte_rate": 1e6, "request_percentage": 2.5}
    assert body_of(request) == {"entities": [{"user": "<default>", "quotas": quotas}]}
    unset = first_request("quotas unset producer_byte_rate --user a --client-id app")
    quotas = {"producer_byte_rate": None}
    assert body_of(unset) == {"entities": [{"user": "a", "client_id": "app", "quotas": quotas}]}
    for line in ("quotas set a=1", "quotas set a=1 a=2 --ip ::1"):
        assert run(lambda request: ok({}), *line.split()).status == 2


@pytest.mark.parametrize("typed", ["y\n", "Yes\n"])
def test_a_person_who_says_yes_deletes_a_topic(typed: str) -> None:
    ran = run(lambda request: ok({}), "topics", "delete", "orders", typed=typed)
    assert (ran.status, [request.method for request in ran.asked]) == (0, ["DELETE"])
    assert ran.out.startswith("Delete topic orders of cluster prod, with all its records? [y/N] ")


@pytest.mark.parametrize("typed", ["\n", "n\n", "orders\n", ""])
def test_a_person_who_says_anything_else_deletes_nothing(typed: str) -> None:
    ran = run(lambda request: ok({}), "topics", "delete", "orders", "--output", "json", typed=typed)
    assert (ran.status, ran.asked, ran.err) == (1, [], "nothing was changed\n")
    assert ran.out.endswith("[y/N] ")


@pytest.mark.parametrize(("option", "typed"), [("--yes", "n\n"), ("--dry-run", "n\n"), ("--yes", None)])
def test_who_says_yes_beforehand_or_changes_nothing_is_not_asked(option: str, typed: str | None) -> None:
    ran = run(lambda request: ok({}), "topics", "delete", "orders", option, typed=typed)
    assert (ran.status, "[y/N]" in ran.out, len(ran.asked)) == (0, False, 1)


def test_a_person_is_one_whose_standard_input_and_output_are_terminals() -> None:
    ours, theirs = pty.openpty()
    line = [
        sys.executable,
        "-m",
        "springtide",
        "--cluster",
        "prod",
        "--timeout",
        "0",
        "topics",
        "delete",
        "x",
    ]
    try:
        os.write(ours, b"n\n")
        at_terminal = subprocess.run(
            line, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60
        )
        assert at_terminal.returncode == Exit.REFUSED
        assert at_terminal.stderr == b"nothing was changed\n"
        assert b"[y/N]" in os.read(ours, 4_096)
        nowhere = [*line, "--url", "127.0.0.1:1"]
        in_pipe = subprocess.run(nowhere, stdin=theirs, capture_output=True, check=False, timeout=60)
        assert in_pipe.returncode == Exit.UNREACHABLE
        assert in_pipe.stdout == b""
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_person_nothing_is_asked() -> None:
    ran = run(lambda request: ok({}), "topics", "delete", "orders")
    assert (ran.status, "[y/N]" in ran.out, len(ran.asked)) == (0, False, 1)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_address_is_refused(name: str) -> None:
    ran = run(lambda request: ok({}), "topics", "delete", name)
    assert (ran.status, ran.asked) == (2, [])


def test_a_name_is_one_segment_of_the_path_whatever_is_in_it() -> None:
    assert address("topics", "a/b?c#d%20 é:x") == "/topics/a%2Fb%3Fc%23d%2520%20%C3%A9%3Ax"
    request = first_request("topics show 'a/b%41'")
    assert request.url.raw_path == b"/clusters/prod/topics/a%2Fb%2541"
    with pytest.raises(UsageError):
        address("topics", "..")


def test_a_setting_twice_is_refused_rather_than_guessed() -> None:
    ran = run(lambda request: ok({}), "topics", "create", "t", "--config", "a=1", "--config", "a=2")
    assert (ran.status, ran.asked) == (2, [])
    assert "'a' is given twice" in ran.err


def test_who_asks_and_what_for_travels_with_every_request() -> None:
    ran = run(lambda request: ok({}), "brokers", "show", "1", "--actor", "alice")
    assert ran.asked[0].headers["x-actor"] == "alice"
    assert ran.asked[0].headers["user-agent"].startswith("springtide/")


def test_what_is_lost_together_is_asked_together() -> None:
    request = first_request("resilience broker:3 rack:r1")
    assert request.url.params.get_list("lose") == ["broker:3", "rack:r1"]


def test_a_read_and_a_dry_run_have_no_key() -> None:
    assert run(lambda request: ok({}), "brokers", "show", "1").keys == [None]
    assert run(lambda request: ok({}), "topics", "create", "t", "--dry-run").keys == [None]
    assert run(lambda request: ok({}), "topics", "create", "t", "--idempotency-key", "k").keys == ["k"]


# -- the API has what the commands ask for --


def calls() -> Iterator[tuple[str, Command, Call]]:
    parser = build_parser(COMMANDS, version="1")
    for command in COMMANDS:
        for example in command.examples:
            if command.kind in (
                CommandKind.COMPLETION,
                CommandKind.CERTIFICATES,
                CommandKind.BACKUP,
                CommandKind.ROLL,
            ):
                continue
            options = parser.parse_args(shlex.split(example.partition(" | ")[0]))
            options.hidden_answer = "a secret"
            options.cluster = "prod"
            yield example, command, command.call(options)


def operation_of(call: Call) -> dict[str, Any]:
    """Of the document's templates, the one with the most fixed text that the path fits."""
    fitting = [
        template
        for template, methods in OPENAPI["paths"].items()
        if call.method.lower() in methods
        and re.fullmatch(re.sub(r"\\{[a-z_]+\\}", "[^/:]+", re.escape(template)), call.path)
    ]
    assert fitting, f"the API has no {call.method} {call.path}"
    best = max(fitting, key=lambda template: len(re.sub(r"\{[a-z_]+\}", "", template)))
    operation: dict[str, Any] = OPENAPI["paths"][best][call.method.lower()]
    return operation


@pytest.mark.parametrize(("example", "command", "call"), [pytest.param(*c, id=c[0]) for c in calls()])
def test_the_api_takes_what_the_example_asks(example: str, command: Command, call: Call) -> None:
    operation = operation_of(call)
    known = {one["name"] for one in parameters_of(OPENAPI, operation) if one["in"] == "query"}
    paged = {"limit", "page_token"} if command.kind is CommandKind.LIST and command.is_paged else set()
    assert set(call.query) | paged <= known
    if call.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        names = [choice["$ref"].rpartition("/")[2] for choice in schema.get("oneOf", [schema])]
        bodies = [OPENAPI["components"]["schemas"][name] for name in names]
        assert any(
            set(call.body) <= set(body["properties"]) and set(body.get("required", ())) <= set(call.body)
            for body in bodies
        ), (example, call.body)


@pytest.mark.parametrize(
    "line",
    [
        "audit list --kind change --entity topic --topic t --partition 0 --broker 1 --by a --cause c "
        "--operation op_1 --request-id r --since 2026-11-21T00:00:00Z --until 2026-11-22T00:00:00Z",
        "operations list --state running --kind broker_add --by a --since 2026-11-21T00:00:00Z",
        "audit verify --from-seq 1 --to-seq 5",
        "assignment --as-of 2026-11-21T00:00:00Z --topic t",
        "brokers list --state active --sort=-leaders",
        "topics list --sort=-partitions",
        "partitions list --state online",
        "resilience broker:3 --state leaderless",
        "reassignments list --topic t --blocked",
    ],
)
def test_every_filter_is_one_of_the_apis(line: str) -> None:
    request = run(lambda request: ok({"items": []}), *shlex.split(line)).asked[0]
    asked = dict(parse_qsl(request.url.query.decode()))
    operation = operation_of(Call(method="GET", path=request.url.path))
    known = {one["name"] for one in parameters_of(OPENAPI, operation) if one["in"] == "query"}
    assert set(asked) <= known
    # Every option that was given has arrived.
    assert len(asked) >= line.count("--")


def test_every_columns_field_is_in_the_apis_answer() -> None:
    for _, command, call in calls():
        if command.kind is not CommandKind.LIST:
            continue
        answer = operation_of(call)["responses"]["200"]["content"]["application/json"]["schema"]
        item = resolve(resolve(answer)["properties"]["items"]["items"])
        for column in command.columns:
            schema = item
            for name in column.path.split("."):
                assert name in schema["properties"], (command.words, column.path)
                schema = resolve(schema["properties"][name])


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Follows a reference, and the branch of `X | null` that is not null."""
    if "anyOf" in schema:
        schema = next(branch for branch in schema["anyOf"] if branch.get("type") != "null")
    if "$ref" in schema:
        found: dict[str, Any] = OPENAPI["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def test_a_plan_has_one_goal_written_as_options() -> None:
    request = first_request("plans make --drain 3 --drain 4 --expires-in 60 --reason 'a new rack'")
    assert (request.method, request.url.path) == ("POST", "/clusters/prod/plans")
    assert body_of(request) == {
        "goal": {"kind": "drain", "broker_ids": [3, 4]},
        "expires_in_s": 60,
        "reason": "a new rack",
    }
    goals = {
        "--rebalance": {"kind": "rebalance", "mode": "full"},
        "--onto 4 --onto 5": {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4, 5]},
        "--replace 3:4": {"kind": "replace", "broker_id": 3, "replacement": 4},
        "--replication-factor a=b=3": {
            "kind": "change_replication_factor",
            "topic": "a=b",
            "replication_factor": 3,
        },
        "--separate": {"kind": "separate_replicas"},
        "--assign or-ders-0=4:2": {
            "kind": "assign",
            "assignments": [{"topic": "or-ders", "partition": 0, "replicas": [4, 2]}],
        },
    }
    for options, goal in goals.items():
        assert body_of(first_request(f"plans make {options}")) == {"goal": goal}


@pytest.mark.parametrize(
    "options", ["", "--drain 3 --separate", "--replace 3", "--replication-factor orders"]
)
def test_a_plan_without_one_plain_goal_is_a_usage_error(options: str) -> None:
    assert run(lambda _: ok({}), "plans", "make", *options.split()).status == 2


def test_an_assignment_without_a_partition_is_one_too() -> None:
    with pytest.raises(SystemExit) as exited:
        run(lambda _: ok({}), "plans", "make", "--assign", "orders=1")
    assert exited.value.code == 2


def test_how_a_plan_is_carried_out_and_an_operation_is_steered() -> None:
    request = first_request(
        "plans execute plan_1 --throttle 5 --max-concurrent-moves 2 --bytes-max 0 --drifted re_plan"
    )
    assert request.url.path == "/clusters/prod/plans/plan_1:execute"
    assert body_of(request) == {
        "throttle_bytes_per_s": 5,
        "max_concurrent_moves": 2,
        "bytes_max": 0,
        "drifted": "re_plan",
    }
    request = first_request("operations cancel op_1 --keep")
    assert (request.url.path, request.url.query) == ("/operations/op_1:cancel", b"mode=keep")
    assert first_request("operations cancel op_1").url.query == b""
    request = first_request("operations undo op_1 --skip-conflicts --not-before 2026-11-22T02:00:00Z")
    assert body_of(request) == {"skip_conflicts": True, "not_before": "2026-11-22T02:00:00Z"}
    assert first_request("operations pause op_1").url.path == "/operations/op_1:pause"
    assert first_request("operations moves op_1 --fate moving").url.params["fate"] == "moving"
