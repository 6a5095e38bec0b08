"""Runs unit tests with a mutant, each time in a child of one process that has imported and collected all.

A child is forked, gets the code of one changed function put into the function that is there, runs the tests
that execute the changed lines, the quick ones first, and ends with the first failure. Nothing starts anew, so
a mutant costs no more than its tests.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType

import coverage
import pytest

from tests.mutation.mutants import Mutant, mutated_code

ROOT = Path(__file__).parents[2]
TIMES_SLOWER, GRACE_S = 4.0, 5.0
"""A child may take so many times what its tests took, and so many seconds more: then it hangs."""
KILLED, SURVIVED, HANGS, UNSEEN = "killed", "survived", "hangs", "unseen"
"""unseen: no unit test executes the line. It counts as survived."""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    line: int
    verdict: str
    by: str
    seconds: float


@dataclass(slots=True)
class Seen:
    """What the tests execute. lines: (file, line) to the tests; seconds: of each test."""

    lines: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)

    def tests_of(self, mutant: Mutant) -> list[str]:
        found = set().union(*(self.lines.get((mutant.file, line), ()) for line in mutant.lines))
        return sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test))


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    answer: int
    mutant: Mutant
    began: float
    limit_s: float


class Runner:
    """A plugin of pytest's: it lets pytest collect, and then does something else with the tests."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        *,
        seen_file: Path,
        jobs: int,
        quick_s: float,
        told: Callable[[Verdict], None],
    ) -> None:
        self._mutants = mutants
        self._seen_file = seen_file
        self._jobs = jobs
        self._quick_s = quick_s
        self._told = told
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        self._sources = {mutant.file: (ROOT / mutant.file).read_text(encoding="utf-8") for mutant in mutants}
        self._failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """After conftest.py, whose settings stand but for this: to find the smallest example that fails takes
        ten seconds, and nobody reads it."""
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings.default, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self) -> None:
        """Before the collector forgets them: all functions that there are."""
        files = {str(ROOT / file): file for file in self._sources}
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in files:
                code = each.__code__
                key = files[code.co_filename], code.co_qualname, code.co_firstlineno
                self._functions[key].append(each)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        seen = self._what_is_seen(list(session.items))
        queue = iter(self._mutants)
        children: list[_Child] = []
        while True:
            while len(children) < self._jobs and (mutant := next(queue, None)) is not None:
                tests = [test for test in seen.tests_of(mutant) if test in items]
                if not tests:
                    self._tell(mutant, UNSEEN, "", 0.0)
                    continue
                tests = [test for test in tests if seen.seconds.get(test, 0.0) <= self._quick_s]
                limit_s = GRACE_S + TIMES_SLOWER * sum(seen.seconds.get(test, 0.1) for test in tests)
                children.append(self._fork(mutant, [items[test] for test in tests], limit_s))
            if not children:
                return True
            ready, _, _ = select.select([child.answer for child in children], [], [], 0.5)
            for child in list(children):
                seconds = time.monotonic() - child.began
                if child.answer in ready:
                    by = os.read(child.answer, 4096).decode()
                    status = os.waitpid(child.pid, 0)[1]
                    is_whole = status == 0 and by == "-"
                    self._tell(child.mutant, SURVIVED if is_whole else KILLED, by.strip("-"), seconds)
                elif seconds > child.limit_s:
                    os.kill(child.pid, signal.SIGKILL)
                    os.waitpid(child.pid, 0)
                    self._tell(child.mutant, HANGS, "", seconds)
                else:
                    continue
                os.close(child.answer)
                children.remove(child)

    def _tell(self, mutant: Mutant, verdict: str, by: str, seconds: float) -> None:
        self._told(Verdict(mutant.name, mutant.lines[0], verdict, by, round(seconds, 2)))

    def _fork(self, mutant: Mutant, items: list[pytest.Item], limit_s: float) -> _Child:
        answer, told = os.pipe()
        began = time.monotonic()
        pid = os.fork()
        if pid:
            os.close(told)
            return _Child(pid, answer, mutant, began, limit_s)
        try:
            _be_silent()
            self._put(mutant)
            by = next((item.nodeid for item in _run(items) if self._failed), "-")
            os.write(told, by.encode())
        except BaseException as error:  # the mutant broke what runs the tests: nobody would overlook that
            os.write(told, f"{type(error).__name__}: {error}"[:1000].encode())
        finally:
            os._exit(0)

    def _put(self, mutant: Mutant) -> None:
        code = mutated_code(self._sources[mutant.file], mutant, path=ROOT / mutant.file)
        functions = self._functions[mutant.file, mutant.function, mutant.first_line]
        assert functions, f"no function {mutant.function} in {mutant.file}"
        for function in functions:
            function.__code__ = code

    def _what_is_seen(self, items: list[pytest.Item]) -> Seen:
        """Run all tests once, in a child, with coverage; keep what it found for the next time."""
        if not self._seen_file.exists():
            began = time.monotonic()
            pid = os.fork()
            if not pid:
                try:
                    _be_silent()
                    _write_seen(self._seen_file, items, self._sources, lambda: self._failed)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            print(f"coverage of {len(items)} tests: {time.monotonic() - began:.0f} s", file=sys.__stderr__)
        kept = json.loads(self._seen_file.read_text(encoding="utf-8"))
        seen = Seen(seconds=kept["seconds"])
        for file, lines in kept["lines"].items():
            for line, tests in lines.items():
                seen.lines[file, int(line)] = {kept["tests"][index] for index in tests}
        return seen


def _be_silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _run(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item


def _write_seen(
    path: Path, items: list[pytest.Item], files: dict[str, str], has_failed: Callable[[], bool]
) -> None:
    measured = coverage.Coverage(data_file=None, include=[str(ROOT / file) for file in files])
    names = [item.nodeid for item in items]
    seconds: dict[str, float] = {}
    measured.start()
    measured.switch_context("0")
    began = time.monotonic()
    for index, item in enumerate(_run(items), start=1):
        seconds[item.nodeid] = round(time.monotonic() - began, 4)
        began = time.monotonic()
        if index < len(items):
            measured.switch_context(str(index))
    measured.stop()
    data = measured.get_data()
    lines = {
        str(Path(file).relative_to(ROOT)): {
            str(line): [int(each) for each in contexts if each]
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    if has_failed():
        path.with_suffix(".failed").write_text("a test failed without any mutant\n", encoding="utf-8")
    path.write_text(json.dumps({"tests": names, "seconds": seconds, "lines": lines}), encoding="utf-8")
