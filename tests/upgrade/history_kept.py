"""Whether the audit's history stays what it was, whichever release is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from localcluster.cluster import LocalCluster
from localcluster.rest import Json

PAGE = 1000


@dataclass
class KeptHistory:
    """The rows that were seen, as they were first answered. troubles: what was answered otherwise later."""

    cluster: LocalCluster
    rows: dict[int, Json] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def compare(self, when: str) -> None:
        """Read all rows from the active controller and compare them with what was answered before."""
        now = self._read()
        for number, row in self.rows.items():
            if number not in now:
                self.troubles.append(f"audit {when}: row {number} is gone")
            elif _changed(row, now[number]):
                self.troubles.append(f"audit {when}: row {number} was {row}, is {now[number]}")
        self.rows |= now
        verdict = self.cluster.api.get(f"/audit/verification?cluster={self.cluster.name}")
        if not verdict["ok"]:
            self.troubles.append(f"audit {when}: {verdict['mismatch']}")

    def _read(self) -> dict[int, Json]:
        found: dict[int, Json] = {}
        token = ""
        while True:
            query = f"cluster={self.cluster.name}&limit={PAGE}{token}"
            page = self.cluster.api.get(f"/audit?{query}")
            found |= {int(row["id"]): row for row in page["items"]}
            if not page.get("next_page_token"):
                return found
            token = f"&page_token={page['next_page_token']}"


def _changed(before: Json, now: Json) -> bool:
    """Return whether a field that was known is otherwise now. Some are filled later: an outcome, a hash."""
    return any(now[name] != value for name, value in before.items() if value is not None and name in now)
