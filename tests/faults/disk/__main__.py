"""`python -m tests.faults.disk [--size ci|full]`: a broker's volume goes without a flush and comes back.

Needs root: the brokers' disks are ext4 on loop devices.
"""

from __future__ import annotations

import sys

from tests.faults.disk.disk_goes_back import ROUNDS, tell_all
from tests.faults.family import run_family

if __name__ == "__main__":
    sys.exit(run_family("disk", tell_all, ROUNDS, needs_hosts=True))
