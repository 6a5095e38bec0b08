"""One tier's figures, as it leaves them in `build/proof/` for the table.

A part is written when it ends, failed or not. The table (`python -m tests.proof`) shows whatever parts it
finds, and says which are missing: a part that did not run is never a part that passed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

DIRECTORY = Path("build/proof")

Figure = int | float | str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one tier did.

    name: file name and heading, such as `tier-a`.
    seconds: of wall clock.
    figures: what people compare, in the order to be shown, e.g. {"seeds": 3000, "records acknowledged": 1}.
    faults: how often each kind struck.
    failures: one line for each thing that must not be; empty when everything held.
    lost, inconsistent: records, over everything in this part. A control run, which must lose, reports its
        losses among `figures`.
    """

    name: str
    seconds: float
    figures: dict[str, Figure]
    faults: dict[str, int] = {}
    failures: list[str] = []
    lost: int = 0
    inconsistent: int = 0

    @property
    def is_ok(self) -> bool:
        return not self.failures and self.lost == 0 and self.inconsistent == 0


def save(part: Part, directory: Path = DIRECTORY) -> Path:
    """Writes the part where the table looks for it, in place of an earlier one of that name."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{part.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(part), indent=2) + b"\n")
    return path


def load_all(directory: Path = DIRECTORY) -> list[Part]:
    """Every part that was left there, by name."""
    return [msgspec.json.decode(path.read_bytes(), type=Part) for path in sorted(directory.glob("*.json"))]
