"""SQL without threads, so that the order of things is the test's or the seed's alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.lowlevel

T = TypeVar("T")


async def run_in_place(work: Callable[[], T], *, exclusive: bool) -> T:
    await anyio.lowlevel.checkpoint()
    return work()
