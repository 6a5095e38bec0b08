"""Whatever failed once holds now."""

from __future__ import annotations

import pytest

from tests.simulation.corpus import Case, load_corpus, run_case

CASES = load_corpus()


@pytest.mark.proof  # every sweep, that of `make check` and `make test` too, begins with them
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_failed_once_holds(case: Case) -> None:
    found = run_case(case)
    assert found.failure is None, f"{case.rule}, {case.why}: {found.failure}"


def test_every_case_says_which_rule_failed_and_why() -> None:
    assert CASES
    assert all(case.rule and case.why for case in CASES)
