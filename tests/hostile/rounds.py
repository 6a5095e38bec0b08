"""A round: one world, and some hundred cases put to it one after the other.

Each operation has rounds of its own, so that what an operation is asked does not change when another one
joins the document. Mixed rounds ask what all operations allow, in turns: there one case meets what others
have begun.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests
import trio

from tests.fullstack.clock import run_virtually
from tests.hostile.aftermath import Asked, complaints
from tests.hostile.aiming import Aim, Known
from tests.hostile.asking import Reply, ask, prepared
from tests.hostile.drawing import Case, Drawer, is_positive, number
from tests.hostile.judging import Finding, Findings, code_of, judge
from tests.hostile.world import World, furnished

#: Then the world is made anew: what was deleted is back.
CASES_PER_WORLD = 250
READS_TOGETHER = 12
MIXED = "all operations, mixed"
MIXED_EACH = 6
BETWEEN_CASES_S = 0.002
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})


@dataclass(slots=True)
class Tally:
    """What was asked and how it was answered; adds up over rounds and processes."""

    positive: int = 0
    negative: int = 0
    unsendable: int = 0
    worlds: int = 0
    rows: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    findings: Findings = field(default_factory=Findings)

    @property
    def cases(self) -> int:
        return self.positive + self.negative

    def merge(self, other: Tally) -> None:
        self.positive += other.positive
        self.negative += other.negative
        self.unsendable += other.unsendable
        self.worlds += other.worlds
        self.rows += other.rows
        self.statuses += other.statuses
        self.codes += other.codes
        self.accepted += other.accepted
        self.asked += other.asked
        self.findings.merge(other.findings)


@dataclass(frozen=True, slots=True)
class Job:
    """labels: operations that are asked one after the other, or MIXED alone. fuzz: random cases of each,
    beside those that walk the document."""

    labels: tuple[str, ...]
    fuzz: int
    seed: int

    @property
    def name(self) -> str:
        return self.labels[0] + (f" and {len(self.labels) - 1} more" if len(self.labels) > 1 else "")


def jobs_for(labels: Sequence[str], fuzz: int, seed: int) -> list[Job]:
    """What only reads shares worlds, which cost as much as some hundred cases; what writes has its own."""
    reads = [label for label in labels if label.startswith("GET ")]
    return [
        *(Job((label,), fuzz, seed) for label in labels if not label.startswith("GET ")),
        *(
            Job(tuple(reads[n : n + READS_TOGETHER]), fuzz, seed)
            for n in range(0, len(reads), READS_TOGETHER)
        ),
    ]


_drawers: dict[int, Drawer] = {}


def run_job(job: Job) -> Tally:
    """In any process: equal jobs ask equally."""
    drawer = _drawers.get(0)
    if drawer is None:
        drawer = _drawers[0] = Drawer()
    logging.disable(logging.CRITICAL)  # the application logs what it refuses
    try:
        return play(drawer, job, draw(drawer, job))
    finally:
        logging.disable(logging.NOTSET)


def draw(drawer: Drawer, job: Job) -> list[Case]:
    if job.labels == (MIXED,):
        seed = number(f"mixed {job.seed}")
        cases = [case for label in drawer.labels for case in drawer.positive(label, MIXED_EACH, seed)]
        Random(f"mixed {job.seed}").shuffle(cases)
        return cases
    return [
        case
        for label in job.labels
        for case in (*drawer.coverage(label), *drawer.fuzz(label, job.fuzz, job.seed))
    ]


def play(drawer: Drawer, job: Job, cases: Sequence[Case]) -> Tally:
    tally = Tally()
    size = len(cases) if len(job.labels) > 1 else CASES_PER_WORLD
    for first in range(0, len(cases), size):
        some = cases[first : first + size]
        seed = number(f"{job.name} {job.seed} {first}")

        async def play_round(_clock: Any, some: Sequence[Case] = some) -> None:
            async with furnished() as world:
                await _Round(world, drawer, job, tally).play(some)

        run_virtually(seed, play_round)
        tally.worlds += 1
    return tally


class _Round:
    def __init__(self, world: World, drawer: Drawer, job: Job, tally: Tally) -> None:
        self._world = world
        self._drawer = drawer
        self._job = job
        self._known = Known()
        self._aims: dict[str, Aim] = {}
        self._tally = tally
        self._asked: list[Asked] = []

    def _aim(self, label: str) -> Aim:
        """Each operation's own, so that whom it shares a world with makes no difference."""
        return self._aims.setdefault(label, Aim(self._known, Random(f"{label} {self._job.seed}")))

    async def play(self, cases: Sequence[Case]) -> None:
        await self._known.learn(self._drawer.document, self._get)
        for case in cases:
            await trio.sleep(BETWEEN_CASES_S)
            await self._put(case)
        for complaint in await complaints(self._world, self._asked):
            title = "the audit and the answers differ"
            self._tally.findings.add(Finding(self._job.name, title, complaint, "at the end of a round"))
        self._tally.rows += len(self._asked)

    async def _get(self, path: str) -> Any:
        answer = await self._world.rest.client.get(path)
        return answer.json() if answer.status_code == 200 else None

    async def _put(self, case: Case) -> None:
        tally = self._tally
        aim = self._aim(case.operation.label)
        if case.meta is not None and case.meta.phase.name.value == "coverage":
            aim.at_path(case)
        else:
            aim.everywhere(case)
        try:
            request = prepared(case)
        except (requests.RequestException, UnicodeError, ValueError):
            tally.unsendable += 1
            return
        if is_positive(case):
            tally.positive += 1
        else:
            tally.negative += 1
        reply = await ask(self._world.rest.app, request)
        judge(case, request, reply, tally.findings)
        self._note(case, request, reply)

    def _note(self, case: Case, request: requests.PreparedRequest, reply: Reply) -> None:
        tally = self._tally
        tally.statuses[reply.status] += 1
        tally.asked[case.operation.label] += 1
        if reply.status < 300:
            tally.accepted[case.operation.label] += 1
        code = code_of(reply)
        if code is not None:
            tally.codes[code] += 1
        if reply.status == 202:
            self._known.note_operation(reply.header("location") or "")
        is_internal = case.operation.path.startswith("/internal/")
        is_look = case.operation.path.endswith("/records")
        is_write = not is_internal and request.method not in _SAFE and not _is_dry(request)
        self._asked.append(
            Asked(
                line=f"{request.method} {request.url}"[:300],
                request_id=reply.header("x-request-id") or "",
                is_audited=is_write or is_look,
                status=reply.status,
                is_replay=reply.header("idempotency-replayed") is not None,
            )
        )


def _is_dry(request: requests.PreparedRequest) -> bool:
    """As the application reads it: what it can't read it refuses."""
    _, _, query = (request.url or "").partition("?")
    values = [part.partition("=")[2].lower() for part in query.split("&") if part.startswith("dry_run=")]
    return bool(values) and values[-1] in ("true", "1", "on", "yes", "t", "y")
