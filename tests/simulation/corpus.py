"""Every seed and schedule that ever failed, one JSON object a line in corpus.jsonl, run again first.

A line with strikes is the run itself and stays what it was when planners change. One with only a seed draws
whatever the seed draws today: it is kept because people quote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.simulation.options import ClusterOptions
from tests.simulation.run import Verdict, run_seed
from tests.simulation.schedule import Strike

CORPUS = Path(__file__).with_name("corpus.jsonl")


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run that can be repeated.

    rule: what failed, and must not again. why: what was wrong, for people. options, strikes: None: those that
    the seed draws.
    """

    seed: int
    rule: str = ""
    why: str = ""
    options: ClusterOptions | None = None
    strikes: tuple[Strike, ...] | None = None

    def __str__(self) -> str:
        if self.strikes is None:
            return f"seed {self.seed}"
        return f"seed {self.seed} with {len(self.strikes)} strikes"


class BadCase(ValueError):
    """The file holds no case. The text names it, and the line."""


def case_of(verdict: Verdict) -> Case:
    """The run that gave this verdict, expanded: it needs no planner any more."""
    return Case(
        seed=verdict.seed,
        rule=verdict.rule or "",
        why=verdict.failure or "",
        options=verdict.options,
        strikes=verdict.strikes,
    )


def run_case(case: Case) -> Verdict:
    return run_seed(case.seed, options=case.options, strikes=case.strikes)


def encode_case(case: Case) -> bytes:
    """One line, without its end."""
    return msgspec.json.encode(case)


def decode_case(text: bytes | str, *, name: str = "case") -> Case:
    """Raises BadCase."""
    try:
        return msgspec.json.decode(text, type=Case)
    except msgspec.DecodeError as error:
        raise BadCase(f"{name}: {error}") from error


def load_case(path: Path) -> Case:
    """A file as a failing run leaves it. Raises BadCase, OSError."""
    return decode_case(path.read_bytes(), name=str(path))


def load_corpus(path: Path = CORPUS) -> tuple[Case, ...]:
    """In the order of the file. Raises BadCase naming the line."""
    return tuple(_decode_lines(path.read_bytes().splitlines(), str(path)))


def _decode_lines(lines: Iterable[bytes], name: str) -> Iterable[Case]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield decode_case(line, name=f"{name} line {number}")
