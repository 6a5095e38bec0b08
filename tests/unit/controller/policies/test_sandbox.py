"""Policies see the facts, and can do nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controller.core.planning.goals import Drain
from controller.core.planning.planner import make_plan
from controller.core.planning.snapshot import (
    BrokerSnapshot,
    PartitionSnapshot,
    Snapshot,
    TopicSnapshot,
)
from controller.policies.facts import TABLES, Facts
from controller.policies.sandbox import (
    ROWS_SHOWN,
    SQL_CHARS_MAX,
    BadPolicy,
    PolicyFault,
    check_policy,
    judge,
)
from springtide.contract.epochs import PartitionEpoch

ROOT = Path(__file__).parents[4]
RF3 = "SELECT topic, partition, count(*) FROM planned_replicas GROUP BY topic, partition HAVING count(*) < 3"


def snapshot(partitions: int = 4) -> Snapshot:
    """One topic on brokers 1, 2, 3 of five, each in a rack of its own."""
    return Snapshot(
        brokers=tuple(BrokerSnapshot(broker_id=b, host=f"store{b}", rack=f"r{b}") for b in range(1, 6)),
        topics=(TopicSnapshot(topic_id="T", topic="orders", partitions=partitions, replication_factor=3),),
        partitions=tuple(
            PartitionSnapshot(
                topic_id="T",
                topic="orders",
                partition=number,
                partition_epoch=PartitionEpoch(7),
                replicas=(1, 2, 3),
                leader=1,
                isr=(1, 2),
                min_insync_replicas=2,
                size_bytes=1_000,
            )
            for number in range(partitions)
        ),
    )


def drained() -> Facts:
    """A plan that empties broker 1."""
    before = snapshot()
    plan = make_plan(before, Drain(broker_ids=(1,)))
    assert plan.moves
    return Facts(snapshot=before, plan=plan)


def verdict(sql: str, facts: Facts | None = None):  # type: ignore[no-untyped-def]
    (found,) = judge([("p", sql)], facts or drained())
    return found


def test_a_policy_that_returns_no_row_is_kept_and_one_that_does_says_which() -> None:
    facts = drained()
    kept, broken = judge(
        [("rf3", RF3), ("no_rack_2", "SELECT topic, rack FROM planned_replicas WHERE rack = 'r2'")], facts
    )
    assert (kept.name, kept.ok, kept.rows) == ("rf3", True, ())
    assert (broken.ok, broken.columns, broken.rows_total) == (False, ("topic", "rack"), 4)
    assert broken.rows[0] == ("orders", "r2")


def test_the_facts_are_the_cluster_the_plan_and_what_it_leads_to() -> None:
    facts = drained()
    plan = facts.plan
    assert plan is not None

    def rows(sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in verdict(sql, facts).rows]

    assert rows("SELECT count(*), min(host) FROM brokers") == [(5, "store1")]
    assert rows("SELECT * FROM topics") == [("orders", 4, 3, 2)]
    assert rows("SELECT in_sync, min_insync_replicas, size_bytes FROM partitions LIMIT 1") == [(2, 2, 1_000)]
    assert rows("SELECT is_leader, is_in_sync, rack FROM replicas WHERE partition = 0") == [
        (1, 1, "r1"),
        (0, 1, "r2"),
        (0, 0, "r3"),
    ]
    assert rows("SELECT goal, outcome, moves, bytes FROM plan") == [
        ("drain", "ready", plan.totals.moves, plan.totals.bytes)
    ]
    assert rows("SELECT count(*), sum(bytes) FROM moves") == [(len(plan.moves), plan.totals.bytes)]
    assert rows("SELECT sum(bytes), count(*) FROM added") == [(plan.totals.bytes, plan.totals.copies)]
    assert rows("SELECT DISTINCT broker_id, rack FROM removed") == [(1, "r1")]
    assert rows("SELECT count(*) FROM planned_replicas WHERE broker_id = 1") == [(0,)]
    assert rows("SELECT count(*) FROM planned_replicas") == [(12,)]


def test_without_a_plan_the_cluster_is_judged_as_it_is() -> None:
    facts = Facts(snapshot=snapshot(), plan=None)
    assert verdict(RF3, facts).ok
    assert verdict("SELECT * FROM plan UNION ALL SELECT topic, 1, 1, 1, 1, 1 FROM moves", facts).ok
    assert verdict("SELECT 1 FROM added UNION SELECT 1 FROM removed", facts).ok


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM moves",
        "INSERT INTO brokers VALUES (9, 'h', 'r', 1, 0)",
        "UPDATE plan SET bytes = 0",
        "DROP TABLE plan",
        "CREATE TABLE mine (a)",
        "CREATE TEMP TABLE mine AS SELECT 1",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "VACUUM INTO '/tmp/x.db'",
        "PRAGMA query_only = off",
        "BEGIN",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT hex(randomblob(9))",
        "SELECT datetime('now')",
        "SELECT random()",
        "SELECT sqlite_version()",
        "SELECT * FROM json_each('[1]')",
        "WITH x AS (SELECT 1) DELETE FROM plan",
        "REPLACE INTO plan SELECT * FROM plan",
        "EXPLAIN DELETE FROM plan",
    ],
)
def test_what_is_not_reading_the_facts_is_refused(sql: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        check_policy(sql)
    assert refused.value.fault is PolicyFault.NOT_READ_ONLY, refused.value.detail
    found = verdict(sql)
    assert not found.ok
    assert found.error == refused.value.detail


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- nothing",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE plan",
        "SELECT nothing FROM plan",
        "SELECT * FROM missing",
        "SELECT ?",
        "SELECT 'a\x00b'",
        "SELECT '\ud800'",
        "SELECT " + "(SELECT " * 200 + "1" + ")" * 200,
        "SELECT 1 -- " + "x" * SQL_CHARS_MAX,
        "SELECT " + ",".join("1" for _ in range(100)),
        "SELECT '" + "x" * 9_000 + "' LIKE '" + "%x" * 300 + "'",
    ],
)
def test_what_is_no_select_is_no_policy(sql: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        check_policy(sql)
    assert refused.value.fault is PolicyFault.INVALID
    assert refused.value.detail


def test_a_pattern_that_is_too_long_is_said_to_be() -> None:
    with pytest.raises(BadPolicy, match="a pattern, and what is trimmed, may have 250 characters"):
        check_policy("SELECT 'x' LIKE '" + "%x" * 300 + "'")
    with pytest.raises(BadPolicy, match="what is trimmed, may have 250 characters"):
        check_policy("SELECT trim('x', '" + "x" * 251 + "')")


def test_texts_are_trimmed_as_sqlite_trims_them() -> None:
    found = verdict(
        "SELECT trim('xyaxy', 'yx'), ltrim('xax', 'x'), rtrim('xax', 'x'), trim(' a '), trim(11211, 1)"
    )
    assert found.rows == (("a", "ax", "xa", "a", "2"),)
    assert verdict("SELECT trim('a', ''), ltrim(NULL, 'a'), rtrim('a', NULL) FROM plan").rows == (
        ("a", None, None),
    )


def test_texts_are_compared_with_wildcards() -> None:
    kept = "SELECT topic FROM topics WHERE NOT (topic LIKE 'O_D%' AND topic GLOB '[a-o]rder?')"
    assert verdict(kept).ok
    assert verdict("SELECT topic FROM topics WHERE topic LIKE 'or!%' ESCAPE '!' OR topic GLOB 'O*'").ok
    assert verdict("SELECT topic FROM topics WHERE topic LIKE NULL OR partitions LIKE '5'").ok
    assert not verdict("SELECT topic FROM topics WHERE partitions LIKE '4'").ok


def test_a_policy_of_dear_steps_is_stopped_by_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.policies.sandbox.PROCESSOR_S_MAX", 0.2)
    text = f"replace('{'a' * 1_000}', 'a', '{'b' * 90}')"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    with pytest.raises(BadPolicy, match=r"takes too long: more than 0\.2 s of processor time"):
        check_policy(f"{endless} SELECT i FROM n WHERE length(upper({text} || i)) < 0")
    with pytest.raises(BadPolicy, match="takes too long"):
        check_policy(f"{endless} SELECT i FROM n WHERE i || {text} LIKE '{'%b' * 100}c'")


def test_a_policy_that_never_ends_is_stopped_and_not_passed() -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
    with pytest.raises(BadPolicy, match="takes too long"):
        check_policy(endless)
    # One that only takes long where there are facts.
    slow = (
        "SELECT count(*) FROM replicas a, replicas b, replicas c, replicas d, replicas e, replicas f, "
        "replicas g, replicas h WHERE a.position + h.position < 0"
    )
    check_policy(slow)
    found = verdict(slow)
    assert (found.ok, found.error) == (False, "it takes too long: more than 30,000,000 steps of SQLite")
    # Nor does it spoil those after it.
    _, after = judge([("endless", endless), ("rf3", RF3)], drained())
    assert after.ok


LONG = "replace(replace(replace('aaaaaaaaaa', 'a', printed), 'b', printed), 'c', 'ddddddddd')".replace(
    "printed", f"'{'b' * 32}'", 1
).replace("printed", f"'{'c' * 32}'", 1)
"""A text of 92,160 characters in a hundred."""
DEAR = {
    # Issue: 500 characters wrote 3.9 GB into temporary files.
    "a sort of long texts": f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5e3),
        t(x) AS MATERIALIZED (SELECT {LONG}) SELECT x || (i * 7919 % 4001) AS y FROM n, t ORDER BY y""",
    "a set of long texts": f"""WITH RECURSIVE t(x) AS MATERIALIZED (SELECT {LONG}),
        n(i, y) AS (SELECT 1, x FROM t UNION SELECT i + 1, x || i FROM n, t WHERE i < 5e3) SELECT i FROM n""",
    # Each of these tables is written out twice in the next: 2**30 selects before the first step is made.
    "a statement that grows while it is prepared": "WITH "
    + ", ".join(
        ["t0(x) AS (SELECT 1)"]
        + [f"t{i}(x) AS (SELECT (SELECT x FROM t{i - 1}) + (SELECT x FROM t{i - 1}))" for i in range(1, 31)]
    )
    + " SELECT x FROM t30",
}
MEMORY_MIB = 32
IN_BOUNDS = f"""
import resource, sys
from controller.policies import sandbox
from controller.policies.sandbox import BadPolicy, check_policy
from controller.core.planning.snapshot import Snapshot
from controller.policies.facts import Facts

sandbox.MEMORY_BYTES_MAX = {MEMORY_MIB} * 2**20
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # who writes to a file gets an error
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
facts = Facts(snapshot=Snapshot(brokers=(), topics=(), partitions=()), plan=None)
try:
    check_policy(sys.argv[1])
    (verdict,) = sandbox.judge([("p", sys.argv[1])], facts)
    print(verdict.error or verdict.rows_total)
except BadPolicy as refused:
    print(refused.detail)
    check_policy("SELECT 1 FROM plan")  # what was taken is given back
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) // 1024)
"""


def in_a_process_of_its_own(sql: str) -> tuple[str, int]:
    """Return what is said of a policy that may have little memory and no file, and the MiB by which the
    process grew. SQLite's bound is one of the process, and can't be raised again."""
    done = subprocess.run(
        [sys.executable, "-c", IN_BOUNDS, sql], capture_output=True, check=True, text=True, cwd=ROOT
    )
    said, mib = done.stdout.splitlines()
    return said, int(mib)


@pytest.mark.parametrize("sql", DEAR.values(), ids=DEAR.keys())
def test_a_policy_takes_no_more_memory_than_the_bound_and_no_disk(sql: str) -> None:
    said, mib = in_a_process_of_its_own(sql)
    assert said == "it takes too much memory: SQLite may have 512 MiB"
    assert mib < 4 * MEMORY_MIB


def test_rows_of_megabytes_are_counted_one_by_one() -> None:
    wide = ", ".join(["x"] * 30)
    said, mib = in_a_process_of_its_own(
        f"WITH RECURSIVE t(x) AS MATERIALIZED (SELECT {LONG}), "
        f"n(i, x) AS (SELECT 1, x FROM t UNION ALL SELECT i + 1, x FROM n WHERE i < 200) SELECT {wide} FROM n"
    )
    assert said == "200"
    assert mib < 4 * MEMORY_MIB


def test_facts_that_exceed_the_bound_leave_no_policy_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("controller.policies.sandbox.Facts.rows", fail)
    found = verdict("SELECT 1 FROM replicas")
    assert (found.ok, found.error) == (False, "it takes too much memory: SQLite may have 512 MiB")


def test_no_policy_runs_where_sqlite_does_not_bound_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.policies.sandbox.MEMORY_BYTES_MAX", -1)  # passed over, as by old ones
    found = verdict("SELECT 1 FROM plan WHERE 0")
    assert not found.ok
    assert "this SQLite can't bound its memory" in found.error


def test_a_policy_that_fails_while_it_runs_is_not_passed() -> None:
    found = verdict("SELECT abs(-9223372036854775807 - partition) FROM partitions WHERE partition = 1")
    assert not found.ok
    assert found.error == "integer overflow"


def test_many_rows_are_counted_and_few_shown() -> None:
    facts = Facts(snapshot=snapshot(100), plan=None)
    found = verdict("SELECT topic FROM replicas", facts)
    assert (found.rows_total, len(found.rows)) == (300, ROWS_SHOWN)


def test_values_that_json_lacks_are_shown_as_text() -> None:
    found = verdict("SELECT 9e999, x'00ff', NULL, 1.5, upper('a') FROM plan")
    assert found.rows == (("inf", "00ff", None, 1.5, "A"),)


def test_only_the_tables_that_are_read_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    original = Facts.rows

    def watched(self: Facts, table: str):  # type: ignore[no-untyped-def]
        loaded.append(table)
        return original(self, table)

    monkeypatch.setattr(Facts, "rows", watched)
    verdict("SELECT 1 FROM plan WHERE bytes > 5 AND (SELECT count(*) FROM moves) > 2")
    assert loaded == ["moves", "plan"]
    assert len(TABLES) == 9
