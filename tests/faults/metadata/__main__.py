"""See run.py."""

from __future__ import annotations

import sys

from tests.faults.metadata.run import main

if __name__ == "__main__":
    sys.exit(main())
