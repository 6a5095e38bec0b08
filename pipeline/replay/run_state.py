"""What a replay keeps in its checkpoint: the plan, once, and the sink's openings and commits of each round.

<checkpoint>/replay.json.gz                            the plan; the first driver's stays
<checkpoint>/springtide-sink/<round>/...               see sink/state.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.files import Disk, mounted_path, put_if_absent
from pipeline.replay.errors import ReplayError
from pipeline.replay.plan import Plan
from pipeline.replay.plan_json import ENCODED_BYTES_MAX, decode_plan, encode_plan
from pipeline.sink.state import DIRECTORY, SinkState

PLAN = "replay.json.gz"


class RunState:
    """One checkpoint. Raises ReplayError, SinkStateError."""

    def __init__(self, checkpoint: str) -> None:
        root = mounted_path(checkpoint)
        if root is None:
            raise ReplayError(
                f"the checkpoint {checkpoint!r} is not on a mounted file system: it keeps small files that "
                "must be created atomically",
                "Give a path that driver and executors share.",
            )
        self.root = root.absolute()
        self.sink_directory = self.root / DIRECTORY
        self.sink = SinkState(self.sink_directory)
        self._plan: Path = self.root / PLAN

    def plan(self) -> Plan | None:
        """None if nothing was planned here."""
        try:
            found = Disk().read(self._plan, ENCODED_BYTES_MAX + 1)
        except OSError as error:
            raise ReplayError(f"{self._plan} can't be read: {error}") from error
        return None if found is None else decode_plan(found, str(self._plan))

    def keep(self, plan: Plan) -> Plan:
        """The plan that holds from now on: this one, or that of a driver which was quicker."""
        try:
            found = put_if_absent(Disk(), self._plan, encode_plan(plan), bytes_max=ENCODED_BYTES_MAX + 1)
        except OSError as error:
            raise ReplayError(f"{self._plan} can't be written: {error}") from error
        return decode_plan(found, str(self._plan))

    def committed(self) -> dict[int, int]:
        """Records stored by each round that is committed."""
        return {number: _stored(summary) for number, summary in sorted(self.sink.commits().items())}


def check_same(kept: Plan, wanted: Mapping[str, str], checkpoint: Path) -> None:
    """Raises ReplayError if the checkpoint is another replay's."""
    has = kept.settings.identity()
    differences = [f"{name} was {has[name]}, now {wanted[name]}" for name in has if has[name] != wanted[name]]
    if differences:
        raise ReplayError(
            f"{checkpoint} belongs to another replay: {'; '.join(differences)}",
            "Ask for the same to resume it, or give another --checkpoint.",
        )


def rounds_left(plan: Plan, committed: Mapping[int, int]) -> Sequence[int]:
    """Those still to do, in order. Rounds are done one after another; a gap means that files were lost."""
    done = len(committed)
    if set(committed) != set(range(done)) or done > len(plan.rounds):
        raise ReplayError(
            f"the checkpoint has commits of rounds {sorted(committed)[:10]}..., and not of all before them",
            "Files of it were removed: restore them. What is stored can't be told from here.",
        )
    return range(done, len(plan.rounds))


def _stored(summary: bytes) -> int:
    try:
        document = json.loads(summary)
        return sum(int(records) for _, _, _, records in document["stored"])
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"a commit in the checkpoint is damaged: {error!r}") from error
