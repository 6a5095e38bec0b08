"""`python -m tests.faults.minority [--size ci|full]`: one flipped bit, a cut or a lost file at a minority.

Needs root: the brokers' disks are ext4 on loop devices, and all of them lose power at the end.
"""

from __future__ import annotations

import sys

from tests.faults.family import run_family
from tests.faults.minority.damaged_files import SIZES, tell_all

if __name__ == "__main__":
    sys.exit(run_family("minority", tell_all, SIZES, needs_hosts=True))
