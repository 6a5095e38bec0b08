"""The files that keep a merge's plan, so that a merge that was interrupted continues with it.

    <checkpoint>/000000.plan.json    before the first record is appended
    <checkpoint>/000000.done.json    after the last one is committed

Files appear whole and durable or not at all, and are never changed (pipeline/files.py). Only the driver
reads and writes them. The next merge has the next number.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import PlanInvalid
from pipeline.files import SharedDisk, StoredFiles, shared_path
from pipeline.salvage.merge_plan import BYTES_MAX, MergePlan, decode_plan, encode_plan

_PLAN = re.compile(r"([0-9]{6,9})\.plan\.json\Z")


class Begun(NamedTuple):
    """A merge whose plan is written down."""

    number: int
    plan: MergePlan


class MergeState:
    """The files in one directory. Every method may raise PlanInvalid."""

    def __init__(self, root: Path, disk: SharedDisk | None = None) -> None:
        self._root = root
        self._files = StoredFiles(PlanInvalid, bytes_max=BYTES_MAX, disk=disk)

    def unfinished(self) -> Begun | None:
        """Return the merge that was begun last, if it is not finished."""
        number = self._last()
        if number is None:
            return None
        if self._files.read(self._done(number)) is not None:
            return None
        path = self._plan(number)
        encoded = self._files.read(path)
        if encoded is None:
            raise PlanInvalid(f"{path} is gone")
        try:
            return Begun(number, decode_plan(encoded))
        except PlanInvalid as error:
            raise PlanInvalid(f"{path}: {error}") from error

    def begin(self, plan: MergePlan) -> Begun:
        """Write the plan down. Raises PlanInvalid also if another process did so at the same moment."""
        last = self._last()
        number = 0 if last is None else last + 1
        path, encoded = self._plan(number), encode_plan(plan)
        if len(encoded) > BYTES_MAX:
            raise PlanInvalid(
                f"the plan takes {len(encoded)} bytes, more than {BYTES_MAX}: salvage fewer topics"
            )
        if self._files.put_if_absent(path, encoded) != encoded:
            raise PlanInvalid(f"another process merges by {path}: let it end, then run again")
        return Begun(number, plan)

    def finish(self, begun: Begun) -> None:
        """Write down that the merge is committed."""
        summary = json.dumps({"records": begun.plan.records, "sinkId": begun.plan.sink_id}).encode()
        self._files.put_if_absent(self._done(begun.number), summary)

    def _last(self) -> int | None:
        names = self._files.names(self._root)
        return max((int(found[1]) for found in map(_PLAN.match, names) if found), default=None)

    def _plan(self, number: int) -> Path:
        return self._root / f"{number:06d}.plan.json"

    def _done(self, number: int) -> Path:
        return self._root / f"{number:06d}.done.json"


def merge_state(checkpoint: str) -> MergeState:
    """Return the merges of a checkpoint. Raises PlanInvalid for a place that is no mounted path."""
    return MergeState(shared_path(checkpoint, PlanInvalid, what="the checkpoint"))
