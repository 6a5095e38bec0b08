"""`python -m tests.faults.metadata [--size ci|full]`: ZooKeeper goes back while brokers run."""

from __future__ import annotations

import sys

from tests.faults.family import run_family
from tests.faults.metadata.run import SIZES, run

if __name__ == "__main__":
    sys.exit(run_family("metadata", run, SIZES))
