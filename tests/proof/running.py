"""Runs the steps of a plan, each a process that has a time to end in: one after another, but those that
mostly wait two at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from tests.proof.plan import Step

END_SECONDS_MAX = 20.0
POLL_SECONDS = 0.1
WAITING_MAX = 2
"""Steps that mostly wait, at one time."""


@dataclass(frozen=True, slots=True)
class Running:
    """A step that was started. output: what it prints, to be shown when it has ended; None: it is shown as it
    comes."""

    step: Step
    process: subprocess.Popen[bytes]
    ends_at: float
    output: IO[bytes] | None

    @classmethod
    def start(cls, step: Step) -> Running:
        output = tempfile.TemporaryFile() if step.waits else None  # noqa: SIM115 - it outlives this call
        process = subprocess.Popen(
            [sys.executable, *step.arguments], start_new_session=True, stdout=output, stderr=output
        )
        return cls(step, process, time.monotonic() + step.minutes_max * 60, output)

    def failure(self) -> str | None:
        """Return what was wrong with it once it has ended, "" if nothing; None while it goes on."""
        code = self.process.poll()
        if code is None and time.monotonic() < self.ends_at:
            return None
        if code is None:
            self.end()
        self._show()
        if code is None:
            return f"was not done after {self.step.minutes_max:g} minutes"
        return f"ended with exit code {code}" if code else ""

    def _show(self) -> None:
        if self.output is None:
            return
        print(f"\n--- what was printed by: {self.step.title}", flush=True)
        self.output.seek(0)
        shutil.copyfileobj(self.output, sys.stdout.buffer)
        sys.stdout.flush()
        self.output.close()

    def end(self) -> None:
        """Politely first, so that it can unmount and remove what it made; with everything it started at
        last."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def fits(step: Step, running: Sequence[Step]) -> bool:
    """Whether it may start beside these."""
    return not running or (step.waits and all(each.waits for each in running) and len(running) < WAITING_MAX)


def run(chosen: Sequence[Step]) -> list[str]:
    """All steps, however many fail; one line for each that did."""
    wrong = []
    running: list[Running] = []
    began = time.monotonic()
    left = list(enumerate(chosen, start=1))
    try:
        while left or running:
            while left and fits(left[0][1], [each.step for each in running]):
                number, step = left.pop(0)
                minutes = (time.monotonic() - began) / 60
                print(f"\n--- {number}/{len(chosen)} {step.title} (after {minutes:.1f} minutes)", flush=True)
                running.append(Running.start(step))
            time.sleep(POLL_SECONDS)
            for each in list(running):
                failure = each.failure()
                if failure is None:
                    continue
                running.remove(each)
                if failure:
                    arguments = " ".join(each.step.arguments)
                    wrong.append(f"{each.step.title}: {failure} (python {arguments})")
                    print(wrong[-1], flush=True)
    finally:
        for each in running:  # of a run that was interrupted
            each.end()
    return wrong
