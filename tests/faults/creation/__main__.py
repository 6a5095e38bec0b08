"""`python -m tests.faults.creation [--size ci|full]`: many partitions, a failover of controller and broker.

About a minute for 1,500 partitions, a few for 10,000.
"""

from __future__ import annotations

import sys

from tests.faults.creation.large_topic import SIZES, run
from tests.faults.family import run_family

if __name__ == "__main__":
    sys.exit(run_family("creation", run, SIZES))
