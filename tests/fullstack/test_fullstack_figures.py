"""What a sweep of the full stack says of its seeds."""

from __future__ import annotations

from tests.checker.verdict import Figures, Verdict
from tests.fullstack.__main__ import progress
from tests.fullstack.figures import part_of, table
from tests.fullstack.options import Options
from tests.fullstack.run import Result
from tests.simulation.schedule import Strike


def verdict(*, lost: int = 0, bad: dict[str, int] | None = None) -> Verdict:
    return Verdict(anomalies=(), bad=bad or {}, counted={}, figures=Figures(lost=lost))


def result(seed: int, recovery_ms: int, kinds: tuple[str, ...], *, failures: tuple[str, ...] = ()) -> Result:
    return Result(
        seed=seed,
        options=Options(),
        strikes=tuple(Strike(at_ms=1, kind=kind, args={}) for kind in kinds),
        failures=list(failures),
        verdict=verdict(),
        simulated_ms=18_000,
        recovery_ms=recovery_ms,
        acked=100,
        elections=3,
    )


def test_a_sweep_that_held_adds_up_its_seeds() -> None:
    results = [
        result(1, 400, ("kill_broker", "slow_disk")),
        result(2, 9_000, ("kill_broker",)),
        result(3, 10, ()),
    ]
    part = part_of(results, seconds=27.0, compared=1, differing=[])
    assert part.is_ok
    assert part.name == "tier-b"
    assert part.figures["seeds"] == 3
    assert part.figures["records acknowledged"] == 300
    assert part.figures["leader elections"] == 9
    assert part.figures["recovery ms, median"] == 400
    assert part.figures["recovery ms, worst"] == 9_000
    assert part.figures["simulated seconds a second"] == 2.0
    assert part.faults == {"kill_broker": 2, "slow_disk": 1}
    assert "lost                         0" in table(part)


def test_a_loss_a_failure_or_a_difference_in_one_seed_fails_the_part() -> None:
    held = result(1, 400, ())
    lossy = result(2, 400, ())
    lossy.verdict = verdict(lost=2, bad={"lost-acked": 2})
    part = part_of([held, lossy], seconds=1.0, compared=0, differing=[])
    assert not part.is_ok
    assert part.lost == part.inconsistent == 2
    stuck = result(3, -1, (), failures=("L2: it lacks a leader\nand more",))
    part = part_of([held, stuck], seconds=1.0, compared=0, differing=[])
    assert not part.is_ok
    assert part.failures == ["seed 3: L2: it lacks a leader"]
    part = part_of([held], seconds=1.0, compared=1, differing=[1])
    assert not part.is_ok
    assert "seed 1: two runs differ" in table(part)


def test_a_sweep_tells_how_far_it_is() -> None:
    results = [result(1, 400, ()), result(2, 400, (), failures=("lost-acked 7",))]
    assert progress(results, 8, seconds=10.0) == "    10 s: 2 of 8 seeds, 1 failed, 30 s to go"
