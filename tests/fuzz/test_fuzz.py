"""The inputs that a search begins with are taken, and what earlier searches kept still holds. No fuzzer."""

from __future__ import annotations

import pytest

from tests.fuzz.target import kept
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_are_right_are_taken_and_kept_ones_hold(name: str) -> None:
    target = TARGETS[name]
    assert [seed for seed in target.seeds() if not target.run(seed)] == []
    for each in kept(name):
        target.run(each)
