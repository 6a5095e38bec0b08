"""The table of the families of faults (tests/simulation/schedule.FAMILIES): how often each struck on each
tier, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.fullstack.faults import ALL as WHOLE_SYSTEM
from tests.proof.part import Part
from tests.proof.table import rows_as_table, shown
from tests.simulation.schedule import FAMILIES, KINDS, Kind

HEADS = ("family", "A: runs", "strikes", "B: runs", "strikes", "C: strikes", "lost", "inconsistent")
ABSENT = "-"


def strikes_of(part: Part | None, kinds: Mapping[str, Kind], family: str) -> str:
    """Return how many strikes of the family this part has."""
    if part is None:
        return ABSENT
    return shown(sum(n for kind, n in part.faults.items() if kind in kinds and kinds[kind].family == family))


def runs_of(part: Part | None) -> str:
    return ABSENT if part is None else shown(part.figures["seeds"])


def render_families(parts: Sequence[Part]) -> str:
    """Return one row for each family, "-" where a tier did not run. What was lost or inconsistent in tier B
    stands in each row: its runs mix all kinds of strikes."""
    found = {part.name: part for part in parts}
    whole = found.get("tier-b")
    rows = []
    for family, title in FAMILIES.items():
        cores, real = found.get(f"family-{family}"), found.get(f"real-{family}")
        theirs = [part for part in (cores, whole, real) if part is not None]
        rows.append(
            (
                title,
                runs_of(cores),
                strikes_of(cores, KINDS, family),
                runs_of(whole),
                strikes_of(whole, WHOLE_SYSTEM, family),
                ABSENT if real is None else shown(sum(real.faults.values())),
                shown(sum(part.lost for part in theirs)),
                shown(sum(part.inconsistent for part in theirs)),
            )
        )
    return "## families of faults\n\n" + rows_as_table(HEADS, rows) + "\n"
