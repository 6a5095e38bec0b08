"""The format: what is written is read back, and what is no history is refused by line and reason."""

from __future__ import annotations

import io

import msgspec
import pytest

from tests.checker.builder import HistoryBuilder
from tests.checker.check import check
from tests.checker.history import (
    LINE_BYTES_MAX,
    Function,
    History,
    HistoryError,
    Operation,
    Outcome,
    decode_operation,
    encode_operation,
    read_history,
    write_history,
)
from tests.kit.clean_histories import make_clean_history

K = ("orders", 0)


def an_operation() -> Operation:
    builder = HistoryBuilder()
    return builder.send("p", K, [(0, builder.new_value(K))])


def test_a_history_survives_its_file() -> None:
    history = History.of(make_clean_history(7))
    stream = io.BytesIO()
    assert write_history(stream, history.operations) == len(history.operations)
    stream.seek(0)
    assert read_history(stream) == history


def test_a_line_says_only_what_is_not_the_default() -> None:
    line = encode_operation(
        Operation(process="c", f=Function.POLL, type=Outcome.OK, t_invoke_ns=1, t_return_ns=2, key=K)
    )
    assert line == (
        b'{"process":"c","f":"poll","type":"ok","t_invoke_ns":1,"t_return_ns":2,"key":["orders",0]}\n'
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\n", "truncated"),
        (b"{\n", "truncated"),
        (b"[" * 100_000 + b"\n", "expected `object`"),
        (b"{}\n", "missing required field"),
        (b'{"process":"c","f":"steal","type":"ok","t_invoke_ns":1,"t_return_ns":2}\n', "'steal'"),
        (b'{"process":"c","f":"poll","type":"ok","t_invoke_ns":1,"t_return_ns":2,"colour":1}\n', "colour"),
        (b'{"process":"c","f":"poll","type":"ok","t_invoke_ns":1e99,"t_return_ns":2}\n', "int"),
        (b'{"process":"\xff","f":"poll"}\n', "utf-8"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(line: bytes, reason: str) -> None:
    stream = io.BytesIO(encode_operation(an_operation()) + line)
    with pytest.raises(HistoryError, match=r"h\.jsonl line 2: .*") as refused:
        read_history(stream, name="h.jsonl")
    assert reason in str(refused.value).lower()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"process": ""}, "process has 0 characters"),
        ({"process": "p" * 1000}, "process has 1000 characters"),
        ({"t_invoke_ns": 9 * 10**9}, "it returned at"),
        ({"t_invoke_ns": -1}, "invoked at -1 ns"),
        ({"key": None}, "needs a key"),
        ({"key": ("", 0)}, "is no key"),
        ({"key": ("orders", -1)}, "is no key"),
        ({"items": ()}, "a send needs the values"),
        ({"items": ((-2, "v"),)}, "offset -2"),
        ({"f": Function.POLL, "items": ((-1, "v"),)}, "cannot be read"),
        ({"f": Function.ASSIGN}, "has no items"),
        ({"f": Function.ADMIN, "items": ()}, "the field admin"),
        ({"final": True}, "only a poll can be part of the final read"),
    ],
)
def test_an_impossible_operation_is_neither_written_nor_read(changes: dict[str, object], reason: str) -> None:
    operation = msgspec.structs.replace(an_operation(), **changes)
    with pytest.raises(HistoryError, match=reason):
        encode_operation(operation)
    with pytest.raises(HistoryError, match=reason):
        decode_operation(msgspec.json.encode(operation))
    with pytest.raises(HistoryError, match=f"operation 2: .*{reason}"):
        History.of([an_operation(), operation])


def test_a_file_that_breaks_off_is_no_history() -> None:
    with pytest.raises(HistoryError, match="history line 1 has no end"):
        read_history(io.BytesIO(encode_operation(an_operation()).rstrip(b"\n")))


def test_a_line_without_end_costs_no_more_than_its_bound() -> None:
    with pytest.raises(HistoryError, match=f"history line 1 is longer than {LINE_BYTES_MAX} bytes"):
        read_history(io.BytesIO(b" " * (LINE_BYTES_MAX + 10)))


def test_a_file_with_too_many_lines_is_refused() -> None:
    line = encode_operation(an_operation())
    with pytest.raises(HistoryError, match="more than 3 lines"):
        read_history(io.BytesIO(line * 4), lines_max=3)


def test_a_line_that_the_reader_would_refuse_is_not_written() -> None:
    builder = HistoryBuilder()
    long = builder.poll("c", K, [(n, "v" * 1000) for n in range(20_000)])
    with pytest.raises(HistoryError, match="split the operation"):
        encode_operation(long)


def test_a_value_sent_twice_makes_the_history_unusable() -> None:
    builder = HistoryBuilder()
    value = builder.new_value(K)
    builder.send("p1", K, [(0, value)])
    builder.send_unknown("p2", K, [value])
    with pytest.raises(HistoryError, match="operations 1 and 2 send the same value"):
        check(builder.history())


def test_an_empty_history_is_clean() -> None:
    assert not check(History.of([])).anomalies
