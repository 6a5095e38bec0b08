"""The next upgrade can be rehearsed: this tree as the last release, and one made of it as the next."""

from __future__ import annotations

import pytest

from tests.simulation.releases.rehearsal import EDITS, run
from tests.upgrade.last_release import ROOT


def test_what_is_different_in_the_next_release_fits_this_one() -> None:
    for name, before, after in EDITS:
        assert (ROOT / name).read_text(encoding="utf-8").count(before) == 1, name
        assert after != before


@pytest.mark.slow
def test_this_release_beside_the_next_one_holds_every_invariant() -> None:
    assert run(["tests.simulation", "sweep", "--family", "mixed", "--seeds", "8", "--jobs", "1"]) == 0
