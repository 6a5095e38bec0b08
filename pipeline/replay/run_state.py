"""The files of a replay's checkpoint: the plan, and the sink's openings and commits of each round.

<checkpoint>/replay.json.gz                            the plan; the first driver's stays
<checkpoint>/springtide-sink/<round>/...               see sink/state.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.errors import ReplayError
from pipeline.files import StoredFiles, shared_path
from pipeline.replay.plan import ReplayPlan
from pipeline.replay.plan_json import ENCODED_BYTES_MAX, decode_plan, encode_plan
from pipeline.sink.state import DIRECTORY, SinkState

PLAN = "replay.json.gz"


class RunState:
    """One checkpoint. Raises ReplayError, SinkStateError."""

    def __init__(self, checkpoint: str) -> None:
        self.root = shared_path(checkpoint, ReplayError, what="the checkpoint").absolute()
        self.sink_directory = self.root / DIRECTORY
        self.sink = SinkState(self.sink_directory)
        self._plan = self.root / PLAN
        self._files = StoredFiles(ReplayError, bytes_max=ENCODED_BYTES_MAX)

    def plan(self) -> ReplayPlan | None:
        """Return the plan; None if nothing was planned here."""
        found = self._files.read(self._plan)
        return None if found is None else decode_plan(found, str(self._plan))

    def keep(self, plan: ReplayPlan) -> ReplayPlan:
        """Return the plan that holds from now on: this one, or the one that another driver wrote first."""
        return decode_plan(self._files.put_if_absent(self._plan, encode_plan(plan)), str(self._plan))

    def committed(self) -> dict[int, int]:
        """Return the records that each committed round stored."""
        return {number: _stored(summary) for number, summary in sorted(self.sink.commits().items())}


def check_same(kept: ReplayPlan, wanted: Mapping[str, str], checkpoint: Path) -> None:
    """Raise ReplayError if the checkpoint is another replay's."""
    has = kept.settings.identity()
    differences = [f"{name} was {has[name]}, now {wanted[name]}" for name in has if has[name] != wanted[name]]
    if differences:
        raise ReplayError(
            f"{checkpoint} belongs to another replay: {'; '.join(differences)}",
            "Ask for the same to resume it, or give another --checkpoint.",
        )


def rounds_left(plan: ReplayPlan, committed: Mapping[int, int]) -> Sequence[int]:
    """Return the rounds still to do, in order. Raises ReplayError for a gap: files were lost then."""
    done = len(committed)
    if set(committed) != set(range(done)) or done > len(plan.rounds):
        raise ReplayError(
            f"the checkpoint has commits of rounds {sorted(committed)[:10]}..., and not of all before them",
            "Files of it were removed: restore them. It is not known what is stored.",
        )
    return range(done, len(plan.rounds))


def _stored(summary: bytes) -> int:
    try:
        document = json.loads(summary)
        return sum(int(records) for _, _, _, records in document["stored"])
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"a commit in the checkpoint is damaged: {error!r}") from error
