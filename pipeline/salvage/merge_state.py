"""Where a merge's plan is kept, so that a merge that was interrupted goes on with it.

    <checkpoint>/000000.plan.json    before the first record is appended
    <checkpoint>/000000.done.json    after the last one is committed

Files appear whole and durable or not at all, and are never changed (pipeline/files.py). Only the driver
reads and writes them. The next merge has the next number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pipeline.files import Disk, mounted_path, put_if_absent
from pipeline.salvage.errors import PlanInvalid
from pipeline.salvage.merge_plan import BYTES_MAX, MergePlan, decode_plan, encode_plan

T = TypeVar("T")
_PLAN = re.compile(r"([0-9]{6,9})\.plan\.json\Z")


class Begun(NamedTuple):
    """A merge whose plan is written down."""

    number: int
    plan: MergePlan


class MergeState:
    """The files in one directory. Every method may raise PlanInvalid."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self._root = root
        self._disk = disk or Disk()

    def unfinished(self) -> Begun | None:
        """The merge that was begun last, if nothing says that it is done."""
        number = self._last()
        if number is None:
            return None
        if self._tried(lambda: self._disk.read(self._done(number), BYTES_MAX)) is not None:
            return None
        path = self._plan(number)
        encoded = self._tried(lambda: self._disk.read(path, BYTES_MAX + 1))
        if encoded is None or len(encoded) > BYTES_MAX:
            raise PlanInvalid(f"{path} is gone, or larger than {BYTES_MAX} bytes")
        try:
            return Begun(number, decode_plan(encoded))
        except PlanInvalid as error:
            raise PlanInvalid(f"{path}: {error}") from error

    def begin(self, plan: MergePlan) -> Begun:
        """Writes the plan down. Raises PlanInvalid too if another process did so at the same moment."""
        last = self._last()
        number = 0 if last is None else last + 1
        path, encoded = self._plan(number), encode_plan(plan)
        if len(encoded) > BYTES_MAX:
            raise PlanInvalid(
                f"the plan takes {len(encoded)} bytes, more than {BYTES_MAX}: salvage fewer topics"
            )
        found = self._tried(lambda: put_if_absent(self._disk, path, encoded, bytes_max=BYTES_MAX))
        if found != encoded:
            raise PlanInvalid(f"another process merges by {path}: let it end, then run again")
        return Begun(number, plan)

    def finish(self, begun: Begun) -> None:
        """Says that all of it is committed."""
        summary = json.dumps({"records": begun.plan.records, "sinkId": begun.plan.sink_id}).encode()
        path = self._done(begun.number)
        self._tried(lambda: put_if_absent(self._disk, path, summary, bytes_max=BYTES_MAX))

    def _last(self) -> int | None:
        names = self._tried(lambda: self._disk.names(self._root))
        return max((int(found[1]) for found in map(_PLAN.match, names) if found), default=None)

    def _plan(self, number: int) -> Path:
        return self._root / f"{number:06d}.plan.json"

    def _done(self, number: int) -> Path:
        return self._root / f"{number:06d}.done.json"

    def _tried(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except OSError as error:
            raise PlanInvalid(f"{self._root} can't be used: {error}") from error


def merge_state(checkpoint: str) -> MergeState:
    """Raises PlanInvalid for a place that is no mounted path."""
    root = mounted_path(checkpoint)
    if root is None:
        raise PlanInvalid(
            f"the checkpoint {checkpoint!r} is not on a mounted file system: a merge's plan must be created "
            "atomically. Use a mounted path"
        )
    return MergeState(root)
