"""What the command line refuses, and when a run fails."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from bench.__main__ import COMMANDS, LOADS, main
from bench.cases import CASES
from bench.cluster import status_of
from bench.figures import Ratios
from bench.run import Row
from tests.kit.bench import FIGURES

ROW = Row(
    case=next(case for case in CASES if case.name == "produce-all-66k-4x4-zstd"),
    rounds={},
    medians={"springtide": FIGURES, "kafka": FIGURES},
    ratios=Ratios(throughput=2.0, p50=1.0, p99=1.0, cpu=1.0, memory=0.1),
)


def test_only_a_gated_run_fails_below_a_goal() -> None:
    assert ROW.ratios is not None
    below = replace(ROW, ratios=replace(ROW.ratios, cpu=0.9))
    assert status_of([ROW], is_gated=True) == 0
    assert status_of([ROW, below], is_gated=True) == 1
    assert status_of([ROW, below], is_gated=False) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--gate"], "--gate needs --kafka-home"),
        (["--tls", "--case", "*-acls"], "plain setup only"),
        (["--workers", "--case", "*-workers"], "plain setup only"),
        (["--case", "prodce"], "no case fits"),
        (["--rounds", "-1"], "must be above 0"),
    ],
)
def test_what_can_not_be_measured_is_refused_before_anything_starts(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_benchmark_can_be_asked_how_it_is_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m bench {name}" in capsys.readouterr().out


def test_the_loads_that_benchmarks_start_are_there() -> None:
    assert all(find_spec(f"bench.{name}") for name in LOADS)


def test_a_misspelt_name_is_refused_with_the_names_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["hotpath"])
    assert ended.value.code == 2
    assert "hot_path" in capsys.readouterr().err
