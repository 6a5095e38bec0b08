"""`python -m tests.faults.clocks [--size ci|full]`: wall clocks of real brokers leap by days."""

from __future__ import annotations

import sys

from tests.faults.clocks.clock_leaps import LEAPS, run
from tests.faults.family import run_family

if __name__ == "__main__":
    sys.exit(run_family("clocks", run, LEAPS, needs_hosts=True))
