"""The command line and the job that lands topics, of both releases, beside whatever the cluster runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.land.table import LandTable
from tests.upgrade.mixed_cluster import ENVIRONMENTS, MixedCluster
from tests.upgrade.paths import Release

PROGRAM_SECONDS_MAX = 120.0


@dataclass
class Beside:
    """Programs that an operator has installed on another host. table: where they land the topic.

    troubles: what one of them could not read, a line each.
    """

    cluster: MixedCluster
    topic: str
    table: Path
    troubles: list[str] = field(default_factory=list)
    _turn: int = 0

    def use(self, when: str) -> None:
        """List the topics by the command line of each release, and land what is new by one of them in turn:
        each goes on in the table where the other has stopped."""
        listed: dict[Release, set[str]] = {}
        for release in Release:
            found = self._run(
                release,
                f"{when}: the command line of the {release} release",
                (
                    "springtide",
                    "topics",
                    "list",
                    "--url",
                    ",".join(self.cluster.controller_urls),
                    "--output",
                    "json",
                ),
            )
            if found is not None:
                listed[release] = {topic["name"] for topic in json.loads(found)["items"]}
        if listed.get(Release.LAST) != listed.get(Release.THIS):
            self.troubles.append(f"{when}: the command lines list other topics: {listed}")
        release = (Release.THIS, Release.LAST)[self._turn % len(Release)]
        self._turn += 1
        land = ("pipeline", "land", self.topic, str(self.table), "--engine", "local")
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        self._run(release, f"{when}: the job of the {release} release", (*land, *servers))

    def check_table(self, ends: Mapping[int, int]) -> None:
        """Land the rest, and compare what the table has with where each partition ends."""
        self.use("in the end")
        landed: Counter[int] = Counter()
        _, files = LandTable(self.table).history()
        for file in files:
            landed[file.partition] += file.records
        for partition, end in ends.items():
            if landed[partition] < end:
                self.troubles.append(f"the table has {landed[partition]} of {end} records of {partition}")

    def _run(self, release: Release, what: str, module: Sequence[str]) -> str | None:
        """Return what the program prints; None if it failed, which is noted."""
        command = [self.cluster.pythons[release], "-m", *module]
        environment = {**os.environ, **ENVIRONMENTS[release]}
        try:
            ended = subprocess.run(
                command,
                env=environment,
                cwd=self.cluster.directory,
                capture_output=True,
                text=True,
                check=False,
                timeout=PROGRAM_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            self.troubles.append(f"{what} did not end in {PROGRAM_SECONDS_MAX:g} s")
            return None
        if ended.returncode:
            self.troubles.append(
                f"{what} ended with {ended.returncode}: {(ended.stderr or ended.stdout)[-500:]}"
            )
            return None
        return ended.stdout
