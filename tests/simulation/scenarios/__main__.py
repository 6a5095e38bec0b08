"""`python -m tests.simulation.scenarios [S7 ...] [--seeds 5 | --seed N]` plays scenarios."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.scenarios.all import SCENARIOS
from tests.simulation.scenarios.registry import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.scenarios", description=__doc__)
    parser.add_argument("numbers", nargs="*", help="such as S7; all when none is given")
    parser.add_argument("--seeds", type=int, default=3, help="play each with seeds 0, 1, ...")
    parser.add_argument("--seed", type=int, help="play each with this seed, and show the last events")
    arguments = parser.parse_args()
    chosen = [s for s in SCENARIOS if not arguments.numbers or s.number in arguments.numbers]
    seeds = range(arguments.seeds) if arguments.seed is None else [arguments.seed]
    failed = 0
    for scenario in chosen:
        for seed in seeds:
            played = play(scenario, seed)
            failed += played.failure is not None
            if played.failure is not None:
                print(played.report())
            elif arguments.seed is not None:
                print("\n".join(played.last_events))
        print(f"{scenario.title:<70} {len(seeds)} seeds, {played.simulated_ms} ms: {played.moments}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
