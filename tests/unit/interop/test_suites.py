"""How the run of another client's suite is read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.interop import suites
from tests.interop.suites import NotRun, Results, Suite, render, run, until_one_ends_it

TOLD = """\
=== RUN   TestGood
=== PAUSE TestGood
=== RUN   TestBad
=== RUN   TestBad/part
    file_test.go:12: expected 1, got 2
    --- FAIL: TestBad/part (0.01s)
--- FAIL: TestBad (0.01s)
=== RUN   TestSkipped
    file_test.go:40: needs docker
--- SKIP: TestSkipped (0.00s)
=== CONT  TestGood
    file_test.go:7: a word of one that passes
--- PASS: TestGood (0.10s)
"""


def results_of(program: str, tmp_path: Path) -> Results:
    command = [sys.executable, "-u", "-c", program]
    return until_one_ends_it(command, tmp_path, "TestFirst", os.environ, time.monotonic() + 60)


def test_each_test_has_its_verdict_and_the_words_of_those_that_did_not_pass(tmp_path: Path) -> None:
    found = results_of(f"print({TOLD!r}); raise SystemExit(1)", tmp_path)
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "TestBad": "fails",
        "TestSkipped": "skipped",
        "TestGood": "passes",
    }
    assert found["TestBad"][1] == "expected 1, got 2"
    assert found["TestSkipped"][1] == "needs docker"


INTERLEAVED = """\
=== RUN   TestTxn
    txn_test.go:20: consumer error: not the record
=== RUN   TestSasl
=== RUN   TestSasl/plain
        Error:  Expected nil
=== NAME  TestTxn
    txn_test.go:29: FAILED TESTING -- NOT DELETING TOPIC t
--- FAIL: TestTxn (0.01s)
=== NAME  TestSasl
--- FAIL: TestSasl (0.01s)
"""


def test_the_words_begin_with_the_failure_whatever_else_is_logged_meanwhile(tmp_path: Path) -> None:
    found = results_of(f"print({INTERLEAVED!r})", tmp_path)
    assert {name: words for name, (_, words) in found.items()} == {
        "TestTxn": "consumer error: not the record; FAILED TESTING -- NOT DELETING TOPIC t",
        "TestSasl": "Expected nil",
    }


def test_a_checkout_that_go_did_not_tidy_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    with pytest.raises(NotRun, match=r"has no go\.sum: `go mod tidy`"):
        run(Suite("x", str(tmp_path)), {}, 1.0)


def test_a_panic_is_the_failure_of_the_test_that_ran(tmp_path: Path) -> None:
    program = "print('=== RUN   TestIt\\npanic: no topic [recovered]\\n\\ngoroutine 7'); raise SystemExit(2)"
    assert results_of(program, tmp_path) == {"TestIt": ("fails", "panic: no topic [recovered]")}


def test_one_that_is_silent_for_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "SILENT_SECONDS_MAX", 0.0)
    program = "import time; print('=== RUN   TestIt'); time.sleep(60)"
    assert results_of(program, tmp_path) == {"TestIt": ("not in time", "its process ended with -9")}


def test_the_page_counts_all_and_lists_what_did_not_pass() -> None:
    results = {
        "TestGood": ("passes", ""),
        "TestBad": ("fails", "expected 1"),
        "TestLate": ("not run", "over"),
    }
    page = render({"sarama": ("v1", results)})
    assert "| sarama v1 | 1 | 1 | 0 | 0 | 1 |" in page
    assert page.endswith("sarama:\n\n- fails: TestBad: expected 1\n- not run: TestLate: over\n")
