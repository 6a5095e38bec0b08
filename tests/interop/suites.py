"""Other clients' own test suites against brokers of ours: `python -m tests.interop.suites`.

Go's modules carry their tests: they are fetched into the module cache and run from there. Suites expect what
their own CI has, so some tests fail without a fault of ours: the page (build/interop-suites.md) gives the
words of each: all that it logged, because Go does not mark which line is the failure. A test that is silent
for too long is ended, and its suite goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from bench.command import Narrator
from localcluster.__main__ import COORDINATORS
from localcluster.cluster import CANNOT_RUN, FirstPorts, LocalCluster
from localcluster.processes import exit_on_sigterm
from tests.interop.clients import ROOT

BUILD: Final = ROOT / "build" / "interop-suites"
PAGE: Final = BUILD.with_suffix(".md")
BUILD_SECONDS_MAX: Final = 300.0
SUITE_SECONDS_MAX: Final = 300.0
SILENT_SECONDS_MAX: Final = 45.0
TOXIPROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
"""Sarama's tests cut connections at it. Our brokers tell their own addresses, so little of that is felt."""
TOXIPROXY_URL: Final = "http://localhost:8474"  # by default
VERDICTS: Final = {"PASS": "passes", "FAIL": "fails", "": "not in time", "SKIP": "skipped", "-": "not run"}
_EVENT = re.compile(r"^(?:=== (?:RUN|CONT|NAME)|--- (PASS|FAIL|SKIP):)\s+(\w+)(?:/\S*)?(?: \(.*\))?$")
_WORDS = re.compile(r"^\s+\w+\.go:\d+: (.+)|^\s+Error:\s+(.+)|(panic: .+)")

_PIPED: Final[dict[str, Any]] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
Results = dict[str, tuple[str, str]]  # by test: one of VERDICTS, and why


class Suite(NamedTuple):
    name: str
    module: str  # or the folder of a checkout
    package: str = "."
    tests: str = "^Test"
    tags: str = ""


SUITES: Final = (
    Suite("franz-go", "github.com/twmb/franz-go", "./pkg/kgo"),
    Suite("sarama", "github.com/IBM/sarama", tests="^TestFunc", tags="functional"),
    Suite("kafka-go", "github.com/segmentio/kafka-go"),
)


class NotRun(Exception):
    """The suite could not be fetched, built or started; the message says why."""


def go(*arguments: str) -> str:
    """Run Go and return what it printed. Raises NotRun."""
    options: dict[str, Any] = {
        "timeout": BUILD_SECONDS_MAX,
        "env": {**os.environ, "GOBIN": str(BUILD / "bin")},
    }
    try:
        ended = subprocess.run(["go", *arguments], capture_output=True, text=True, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise NotRun(f"go: {failure}") from failure
    printed: str = ended.stdout
    if ended.returncode:
        raise NotRun(f"go {' '.join(arguments)}: {(ended.stderr or printed).strip().splitlines()[-1:]}")
    return printed


def run(suite: Suite, environment: Mapping[str, str], seconds: float) -> tuple[str, Results]:
    """Return the suite's version and what came of each of its tests. Raises NotRun."""
    version, folder = "a checkout", Path(suite.module)
    if not folder.is_dir():
        told = json.loads(go("-C", str(BUILD), "mod", "download", "-json", f"{suite.module}@latest"))
        version, folder = told["Version"], Path(told["Dir"])
    binary, lists = BUILD / f"{suite.name}.test", ("go.mod", "go.sum")
    if absent := [name for name in lists if not (folder / name).is_file()]:
        raise NotRun(f"{folder} has no {absent[0]}: `go mod tidy` there writes it")
    for name in lists:  # where Go may complete them: kafka-go's lacks what its tests need
        binary.with_suffix(name[2:]).write_bytes((folder / name).read_bytes())
    tidy = ("-mod=mod", f"-modfile={binary.with_suffix('.mod')}")
    go("-C", str(folder), "test", *tidy, "-c", "-tags", suite.tags, "-o", str(binary), suite.package)
    folder /= suite.package
    listing = [str(binary), "-test.list", suite.tests]
    listed = subprocess.run(listing, cwd=folder, env=environment, check=False, **_PIPED)
    left = [line for line in listed.stdout.splitlines() if line.startswith("Test")]
    if not left:
        raise NotRun(f"it lists no tests: {listed.stdout.strip().splitlines()[-1:]}")
    results, deadline = Results(), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        command = [str(binary), "-test.v", "-test.parallel=1", f"-test.run=^({'|'.join(left)})$"]
        results |= until_one_ends_it(command, folder, left[0], environment, deadline)
        left = [name for name in left if name not in results]
    return version, results | dict.fromkeys(left, (VERDICTS["-"], "the suite's time was over"))


def until_one_ends_it(
    command: Sequence[str], folder: Path, running: str, environment: Mapping[str, str], deadline: float
) -> Results:
    """Run tests one after the other until all are done, or one ends the process by its silence or a panic."""
    results: Results = {}
    words = defaultdict[str, list[str]](list)  # by test
    heard, is_ended = time.monotonic(), threading.Event()

    def watch() -> None:
        while not is_ended.wait(1.0):
            if time.monotonic() > min(heard + SILENT_SECONDS_MAX, deadline):
                process.kill()

    with subprocess.Popen(command, cwd=folder, env=environment, **_PIPED) as process:
        threading.Thread(target=watch, daemon=True).start()
        for line in process.stdout or ():
            if told := _WORDS.match(line):
                words[running].append(next(filter(None, told.groups())))
            if event := _EVENT.match(line.rstrip()):
                heard, running = time.monotonic(), event[2]
                if event[1]:
                    results[running] = (VERDICTS[event[1]], "; ".join(words[running]))
        is_ended.set()
    if process.returncode and running not in results:
        verdict = VERDICTS["" if process.returncode < 0 else "FAIL"]
        why = words[running] or [f"its process ended with {process.returncode}"]
        results[running] = (verdict, "; ".join(why))
    return results


@contextmanager
def toxiproxy(brokers: Sequence[str]) -> Iterator[None]:
    """The proxies that Sarama's tests expect, before our brokers. Raises NotRun."""
    go("install", TOXIPROXY)
    process = subprocess.Popen([BUILD / "bin" / "server"], **_PIPED | {"stdout": subprocess.DEVNULL})
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
            for number, port in enumerate(range(29091, 29096)):
                proxy = {"name": f"kafka{number + 1}", "listen": f"127.0.0.1:{port}", "enabled": True}
                upstream = {"upstream": brokers[number % len(brokers)]}
                client.post(f"{TOXIPROXY_URL}/proxies", json=proxy | upstream).raise_for_status()
        yield
    except httpx.HTTPError as failure:
        raise NotRun(f"toxiproxy: {failure}") from failure
    finally:
        process.terminate()
        process.wait()


def render(outcomes: Mapping[str, tuple[str, Results]]) -> str:
    """Return the page: a row for each suite, and each test that did not pass, with its words."""
    columns = [*VERDICTS.values()]
    lines = [f"| suite | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name, (version, results) in outcomes.items():
        found = [verdict for verdict, _ in results.values()]
        lines.append(f"| {name} {version} | {' | '.join(str(found.count(one)) for one in columns)} |")
    for name, (_, results) in outcomes.items():
        rest = [(columns.index(verdict), test, why) for test, (verdict, why) in results.items()]
        lines += ["", f"{name}:", ""]
        lines += [f"- {columns[at]}: {test}: {why[:300]}" for at, test, why in sorted(rest) if at]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit with 0 when all suites ran, whatever failed in them, and 1 at the first that could not."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.suites")
    parser.add_argument("--suites", default="", metavar="NAME|DIR,…", help="only these; DIR: a checkout")
    parser.add_argument("--seconds", type=float, default=SUITE_SECONDS_MAX, help="for each suite")
    options = parser.parse_args(arguments)
    exit_on_sigterm()
    known = {suite.name: suite for suite in SUITES}
    named = [known.get(one) or Suite(Path(one).name, one) for one in options.suites.split(",") if one]
    BUILD.mkdir(parents=True, exist_ok=True)
    tell, outcomes = Narrator(), dict[str, tuple[str, Results]]()
    try:  # Some suites look at 9092, and nowhere else.
        with LocalCluster(coordinators=COORDINATORS, first_ports=FirstPorts(), on_progress=tell) as cluster:
            cluster.form()
            cluster.make_topics_on_first_use()
            at = cluster.bootstrap_servers
            environment = {**os.environ, "BOOTSTRAP": at, "KGO_SEEDS": at, "KGO_TEST_RECORDS": "5000"}
            environment |= {"TOXIPROXY_ADDR": TOXIPROXY_URL, "KAFKA_VERSION": "4.0.0"}
            for suite in named or SUITES:
                tell(f"{suite.name}: built, and run for at most {options.seconds:.0f} s")
                with toxiproxy(at.split(",")):
                    outcomes[suite.name] = run(suite, environment, options.seconds)
    except (NotRun, *CANNOT_RUN) as why:
        sys.exit(f"interop-suites: {why}")
    finally:
        PAGE.write_text(page := render(outcomes), encoding="utf-8")
        sys.stdout.write(page)


if __name__ == "__main__":
    main()
