"""`python -m tests.interop.apps`: each application's main job, here and, with --kafka-home, on Kafka.

The table is printed and written to build/interop-apps.md and build/interop-apps.json. The exit status is 1 if
an application failed here that works on Kafka, or failed and there was no Kafka to compare with.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.command import Narrator
from bench.kafka import Kafka, KafkaNotUsable, find_version
from localcluster.__main__ import COORDINATORS
from localcluster.cluster import CANNOT_RUN, LocalCluster
from localcluster.processes import exit_on_sigterm
from tests.interop.apps import table
from tests.interop.apps.app import App
from tests.interop.apps.catalogue import APPLICATIONS
from tests.interop.apps.runs import Cluster, Outcome, run

SPRINGTIDE = "Springtide"
BROKERS = 3
JSON = Path("build/interop-apps.json")
MARKDOWN = Path("build/interop-apps.md")
GOOD = ("works", "works after its topics are made")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop.apps", description="Which applications do their main job here."
    )
    parser.add_argument("--kafka-home", type=Path, metavar="DIR", help="the Kafka whose jars are in DIR/libs")
    parser.add_argument(
        "--install", action="store_true", help="install into build/interop-apps what is not there"
    )
    parser.add_argument("--apps", metavar="NAME,…", default="", help="only these; all by default")
    parser.add_argument("--list", action="store_true", help="print what each application needs, and end")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit with 0 when no application failed for us, 1 when one did or a cluster could not be started, 2 on
    an unknown name."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    names = [name for name in options.apps.split(",") if name]
    if unknown := set(names) - {app.name for app in APPLICATIONS}:
        parser.error(f"no such application: {', '.join(sorted(unknown))}; see --list")
    apps = [app for app in APPLICATIONS if not names or app.name in names]
    if options.list:
        sys.stdout.write(table.render_needs(apps) + "\n")
        return
    tell = Narrator()
    outcomes: list[Outcome] = []
    try:
        with springtide(tell) as side:
            fill(side, apps, outcomes, tell, has_to_install=options.install)
        if options.kafka_home is not None:
            with kafka(options.kafka_home, tell) as side:
                fill(side, apps, outcomes, tell, has_to_install=options.install)
    except (*CANNOT_RUN, KafkaNotUsable) as failure:
        sys.stderr.write(f"interop-apps: {failure}\n")
        sys.exit(1)
    finally:
        sys.stdout.write(write(apps, outcomes))
    sys.exit(bool(failures_of_ours(outcomes)))


def fill(
    side: Cluster, apps: Sequence[App], outcomes: list[Outcome], tell: Narrator, *, has_to_install: bool
) -> None:
    """Run each application on one side, and add what came of it."""
    started = time.monotonic()
    for done, app in enumerate(apps):
        each = (time.monotonic() - started) / done if done else 0.0
        left = f", about {each * (len(apps) - done):.0f} s left" if done else ""
        tell(f"{side.name}: {app.name} ({done + 1} of {len(apps)}{left})")
        outcome = run(app, side, has_to_install=has_to_install)
        outcomes.append(outcome)
        tell(f"{side.name}: {app.name}: {outcome.verdict}{outcome.detail and f' ({outcome.detail})'}")


def failures_of_ours(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of the applications that do here less than on Kafka, or that fail with no Kafka
    beside."""
    on_kafka = {one.app: one.verdict for one in outcomes if one.side != SPRINGTIDE}
    return [
        one.app
        for one in outcomes
        if one.side == SPRINGTIDE and one.verdict == "fails" and on_kafka.get(one.app, "works") in GOOD
    ]


def write(apps: Sequence[App], outcomes: Sequence[Outcome]) -> str:
    """Write both files; return the page."""
    page = table.render(apps, outcomes)
    JSON.parent.mkdir(exist_ok=True)
    JSON.write_text(json.dumps([asdict(one) for one in outcomes], indent=2) + "\n", encoding="utf-8")
    MARKDOWN.write_text(page, encoding="utf-8")
    return page


@contextmanager
def springtide(tell: Narrator, *, brokers: int = BROKERS) -> Iterator[Cluster]:
    """A cluster as `make up` starts it."""
    with LocalCluster(brokers=brokers, coordinators=COORDINATORS, on_progress=tell) as cluster:
        cluster.form()
        cluster.make_topics_on_first_use()
        nodes = (*cluster.brokers.values(), *cluster.coordinators.values())
        yield Cluster(SPRINGTIDE, cluster.bootstrap_servers, lambda: [node.metrics() for node in nodes])


@contextmanager
def kafka(home: Path, tell: Narrator) -> Iterator[Cluster]:
    """An Apache Kafka that makes topics on first use, as by default."""
    with Kafka(home, tell, broker_config={"auto.create.topics.enable": "true"}) as cluster:
        yield Cluster(f"Apache Kafka {find_version(home)}", cluster.bootstrap_servers)


if __name__ == "__main__":
    main()
