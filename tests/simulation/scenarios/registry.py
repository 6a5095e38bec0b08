"""The scenarios by name, and how one is played."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.cluster import Violation
from tests.simulation.scenarios.script import NotReached, Script

EVENTS_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Scenario:
    """`number`: of docs/replication.md section 7. play: drives the script; the frame begins and ends it."""

    number: str
    name: str
    play: Callable[[Script], None]
    options: dict[str, Any]

    @property
    def title(self) -> str:
        return f"{self.number} {self.name}"


@dataclass(frozen=True, slots=True)
class Played:
    """rule: the one that does not hold, or "crash" and an exception's name; None where the moment was not
    reached. failure: None, or a text that begins with the rule or with "not reached"."""

    scenario: Scenario
    seed: int
    rule: str | None
    failure: str | None
    simulated_ms: int
    moments: tuple[str, ...]
    last_events: tuple[str, ...]

    def report(self) -> str:
        return "\n".join(
            [
                f"{self.scenario.title} failed with seed {self.seed}: {self.failure}",
                *self.last_events,
                f"replay: python -m tests.simulation.scenarios {self.scenario.number} --seed {self.seed}",
            ]
        )


REGISTERED: list[Scenario] = []


def scenario(number: str, **options: Any) -> Callable[[Callable[[Script], None]], Scenario]:
    """Registers the function under its name; options are ClusterOptions'."""

    def add(play: Callable[[Script], None]) -> Scenario:
        assert all(play.__name__ != known.name for known in REGISTERED), play.__name__
        made = Scenario(number, play.__name__, play, options)
        REGISTERED.append(made)
        return made

    return add


def play(scenario: Scenario, seed: int) -> Played:
    """Deterministic in (scenario, seed): the seed sets all delays."""
    was_enabled = gc.isenabled()
    gc.disable()
    script = Script(seed, **scenario.options)
    rule: str | None = None
    failure: str | None = None
    try:
        script.begin()
        scenario.play(script)
        if not script.moments:
            raise NotReached("the scenario names no moment")
        script.finish()
    except Violation as violation:
        rule, failure = violation.rule, str(violation)
    except NotReached as missed:
        failure = f"not reached: {missed}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        rule = f"crash {type(error).__name__}"
        failure = f"{rule}: {error} ({where.filename}:{where.lineno})"
    finally:
        if was_enabled:
            gc.enable()
    return Played(
        scenario,
        seed,
        rule,
        failure,
        script.events.now_ms,
        tuple(script.moments),
        tuple(script.events.recent[-EVENTS_SHOWN:]),
    )
