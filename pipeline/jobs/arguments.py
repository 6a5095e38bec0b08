"""Values on the command line that more than one job takes."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A number of records and the like, for argparse's `type`."""
    value = int(text)
    if not 0 < value < 2**63:
        raise argparse.ArgumentTypeError("must be a positive whole number")
    return value
