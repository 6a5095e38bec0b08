"""Runs a policy's SQL where it can do no harm: one SELECT, on an SQLite database in memory that holds nothing
but the facts, with every other statement, table and function refused before it runs.

Its cost is bounded in steps of SQLite's machine rather than in time, so that the same policy over the same
facts ends the same way on a busy machine. A step over long texts is dear, so there is a bound in the thread's
own processor time as well, which a busy machine does not change either. Neither is looked at while SQLite
prepares a statement or sorts, which is one step: what bounds those is that all memory is bounded, and that
nothing is put on a disk instead. Nothing outlives a call.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from controller.policies.facts import TABLES, Facts, Value
from controller.policies.wildcards import PATTERN_CHARS_MAX, BadPattern, glob_pattern, like_pattern

SQL_CHARS_MAX: Final = 10_000
#: About a second's worth, for one policy.
STEPS_MAX: Final = 30_000_000
#: For one policy; what keeps to STEPS_MAX with texts of usual length is far below.
PROCESSOR_S_MAX: Final = 5.0
#: Few, since a single step over the longest texts takes a tenth of a second.
_STEPS_PER_LOOK: Final = 50
#: Of all SQLite in this process: SQLite has no such bound for one connection. The facts of a hundred thousand
#: partitions take a tenth of it. A statement that reaches it fails, and nothing else is harmed.
MEMORY_BYTES_MAX: Final = 512 * 2**20
_TOO_LARGE: Final = f"it takes too much memory: SQLite may have {MEMORY_BYTES_MAX // 2**20} MiB"
_UNBOUNDED: Final = "policies are not run, since this SQLite can't bound its memory: 3.31 or newer can"
#: Rows of a breach that are shown; all of them are counted up to ROWS_COUNTED_MAX.
ROWS_SHOWN: Final = 20
ROWS_COUNTED_MAX: Final = 100_000
TEXT_CHARS_MAX: Final = 250
COLUMNS_MAX: Final = 30

_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 * SQL_CHARS_MAX),
    (sqlite3.SQLITE_LIMIT_COLUMN, COLUMNS_MAX),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 20_000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 20),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 250),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 0),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
#: What reads values and gives one; none that makes bytes out of nothing, reads a file or asks a clock.
_AGGREGATES: Final = ("avg", "count", "group_concat", "max", "min", "sum", "total")
_WINDOWS: Final = ("dense_rank", "first_value", "lag", "last_value", "lead", "ntile", "rank", "row_number")
_NUMBERS: Final = ("abs", "coalesce", "ifnull", "iif", "nullif", "round", "sign")
_TEXTS: Final = (
    *("glob", "instr", "length", "like", "lower", "ltrim", "replace", "rtrim"),
    *("substr", "substring", "trim", "upper"),
)
_FUNCTIONS: Final = frozenset((*_AGGREGATES, *_WINDOWS, *_NUMBERS, *_TEXTS))
_MAY: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})


class PolicyFault(StrEnum):
    """Why SQL can't be a policy."""

    NOT_READ_ONLY = "not_read_only"
    INVALID = "invalid_policy"


class BadPolicy(Exception):
    def __init__(self, fault: PolicyFault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the columns that a policy returns, and of the tables that it reads."""

    columns: tuple[str, ...]
    tables: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """rows_total: how many rows came; ROWS_COUNTED_MAX: at least so many. error: why it could not be judged;
    what can't be judged is not passed."""

    name: str
    ok: bool
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Value, ...], ...] = ()
    rows_total: int = 0
    error: str | None = None


class _Meter:
    """SQLite's progress handler: stops what takes too long. over: the bound that was passed, in words."""

    def __init__(self) -> None:
        self.steps = 0
        self._began_s = time.thread_time()
        self.over: str | None = None

    def __call__(self) -> bool:
        self.steps += _STEPS_PER_LOOK
        if self.steps > STEPS_MAX:
            self.over = f"it takes too long: more than {STEPS_MAX:,} steps of SQLite"
        elif time.thread_time() - self._began_s > PROCESSOR_S_MAX:
            self.over = f"it takes too long: more than {PROCESSOR_S_MAX:g} s of processor time"
        return self.over is not None


class _Guard:
    """SQLite's authorizer. Remembers what was read and what was refused."""

    def __init__(self) -> None:
        self.tables: dict[str, None] = {}
        self.refused: str | None = None

    def __call__(
        self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None
    ) -> int:
        if action in _MAY:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            if first is not None and first in TABLES:
                self.tables[first] = None
                return sqlite3.SQLITE_OK
            self.refused = f"there is no table {first!r} for policies; there are {', '.join(TABLES)}"
        elif action == sqlite3.SQLITE_FUNCTION:
            if second in _FUNCTIONS:
                return sqlite3.SQLITE_OK
            self.refused = f"the function {second} is not for policies"
        else:
            self.refused = "a policy is one SELECT and nothing else"
        return sqlite3.SQLITE_DENY


def check_policy(sql: str) -> Shape:
    """Prepare the policy and run it over no facts. Raise BadPolicy."""
    if len(sql) > SQL_CHARS_MAX:
        raise BadPolicy(PolicyFault.INVALID, f"a policy may have {SQL_CHARS_MAX} characters")
    connection = _open(())
    try:
        if not _is_bounded(connection):
            raise BadPolicy(PolicyFault.INVALID, _UNBOUNDED)
        guard = _confine(connection)
        meter = _metered(connection)
        try:
            cursor = connection.execute(sql)
            cursor.fetchone()
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            if guard.refused is not None:
                raise BadPolicy(PolicyFault.NOT_READ_ONLY, guard.refused) from None
            raise BadPolicy(PolicyFault.INVALID, meter.over or _said(error)) from None
        if cursor.description is None:
            raise BadPolicy(PolicyFault.INVALID, "a policy is a SELECT; this returns nothing")
        return Shape(
            columns=tuple(column[0] for column in cursor.description), tables=tuple(sorted(guard.tables))
        )
    finally:
        connection.close()


def judge(policies: Iterable[tuple[str, str]], facts: Facts) -> tuple[Verdict, ...]:
    """Return the verdicts of the policies (names and SQL), in their order. Never raises for what a policy
    says."""
    shapes: list[tuple[str, str, Shape | str]] = []
    for name, sql in policies:
        try:
            shapes.append((name, sql, check_policy(sql)))
        except BadPolicy as fault:  # stored by a release that allowed more
            shapes.append((name, sql, fault.detail))
    needed = {table for _, _, shape in shapes if isinstance(shape, Shape) for table in shape.tables}
    try:
        connection = _open((table, facts) for table in sorted(needed))
    except MemoryError:
        return tuple(Verdict(name=name, ok=False, error=_TOO_LARGE) for name, _, _ in shapes)
    try:
        _confine(connection)
        return tuple(
            Verdict(name=name, ok=False, error=shape)
            if isinstance(shape, str)
            else _judge_one(connection, name, sql)
            for name, sql, shape in shapes
        )
    finally:
        connection.close()


def breaches(verdicts: Sequence[Verdict]) -> str | None:
    """Return in words what the verdicts refuse; None if all policies are kept."""
    broken = [verdict for verdict in verdicts if not verdict.ok]
    if not broken:
        return None
    return "; ".join(say(verdict) for verdict in broken[:5]) + (
        f"; and {len(broken) - 5} more" if len(broken) > 5 else ""
    )


def say(verdict: Verdict) -> str:
    """Return one policy's verdict in words."""
    if verdict.error is not None:
        return f"policy {verdict.name} can't be judged: {verdict.error}"
    first = ", ".join(f"{name} {value}" for name, value in zip(verdict.columns, verdict.rows[0], strict=True))
    more = f" and {verdict.rows_total - 1} more" if verdict.rows_total > 1 else ""
    return f"policy {verdict.name}: {first}{more}"


def _judge_one(connection: sqlite3.Connection, name: str, sql: str) -> Verdict:
    meter = _metered(connection)
    try:
        cursor = connection.execute(sql)
        shown: list[tuple[Value, ...]] = []
        total = 0
        for row in cursor:  # one at a time: a row may have megabytes
            total += 1
            if total <= ROWS_SHOWN:
                shown.append(tuple(map(_shown, row)))
            if total == ROWS_COUNTED_MAX:
                break
        columns = tuple(column[0][:TEXT_CHARS_MAX] for column in cursor.description)
        cursor.close()
    except (sqlite3.Error, MemoryError) as error:
        return Verdict(name=name, ok=False, error=meter.over or _said(error))
    return Verdict(name=name, ok=total == 0, columns=columns, rows=tuple(shown), rows_total=total)


def _open(filled: Iterable[tuple[str, Facts]]) -> sqlite3.Connection:
    """All tables, with the rows of those named. Raise MemoryError."""
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    try:
        connection.execute("pragma temp_store = memory")
        connection.execute(f"pragma hard_heap_limit = {MEMORY_BYTES_MAX}")  # can be lowered only
        for table, columns in TABLES.items():
            connection.execute(f"create table {table} ({columns})")
        connection.execute("begin")
        for table, facts in filled:
            width = TABLES[table].count(",") + 1
            connection.executemany(
                f"insert into {table} values ({', '.join('?' * width)})",  # noqa: S608 - a name of ours
                facts.rows(table),
            )
        connection.execute("commit")
        connection.execute("pragma query_only = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_bounded(connection: sqlite3.Connection) -> bool:
    """Return whether SQLite has taken the bound of memory; older ones pass over a pragma that they lack."""
    taken = connection.execute("pragma hard_heap_limit").fetchone()
    return taken is not None and 0 < taken[0] <= MEMORY_BYTES_MAX


def _confine(connection: sqlite3.Connection) -> _Guard:
    """Confine the connection: from here on it runs nothing but policies."""
    for limit, bound in _LIMITS:
        connection.setlimit(limit, bound)
    connection.create_function("like", 2, _like, deterministic=True)
    connection.create_function("like", 3, _like, deterministic=True)
    connection.create_function("glob", 2, _glob, deterministic=True)
    for name, trim in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        connection.create_function(name, 2, partial(_trim, trim), deterministic=True)
    guard = _Guard()
    connection.set_authorizer(guard)
    return guard


def _like(pattern: Value, text: Value, *escape: Value) -> int | None:
    if pattern is None or text is None or None in escape:
        return None
    return like_pattern(_text(pattern), *map(_text, escape)).match(_text(text)) is not None


def _glob(pattern: Value, text: Value) -> int | None:
    if pattern is None or text is None:
        return None
    return glob_pattern(_text(pattern)).match(_text(text)) is not None


def _trim(trim: Callable[[str, str], str], text: Value, chars: Value) -> str | None:
    """SQLite's own compares each character of a text with each of the others, within one step: a minute."""
    if text is None or chars is None:
        return None
    if len(found := _text(chars)) > PATTERN_CHARS_MAX:
        raise BadPattern
    return trim(_text(text), found)


def _text(value: Value | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _metered(connection: sqlite3.Connection) -> _Meter:
    """Return a new meter for one policy, which now counts its steps."""
    meter = _Meter()
    connection.set_progress_handler(meter, _STEPS_PER_LOOK)
    return meter


def _shown(value: Any) -> Value:
    if isinstance(value, bytes):
        return value.hex()[:TEXT_CHARS_MAX]
    if isinstance(value, str):
        return value[:TEXT_CHARS_MAX]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value if isinstance(value, int | float) else None


def _said(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return _TOO_LARGE
    if "user-defined function" in str(error):
        return f"a pattern, and what is trimmed, may have {PATTERN_CHARS_MAX} characters; ESCAPE takes one"
    return str(error).splitlines()[0][:TEXT_CHARS_MAX] if str(error) else type(error).__name__
