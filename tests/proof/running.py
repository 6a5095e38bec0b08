"""Runs the steps of a plan one after another, each a process that has a time to end in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.proof.plan import Step

END_SECONDS_MAX = 20.0


def run_step(step: Step) -> str | None:
    """Runs one command to its end; what was wrong with it, or None. Its output is shown as it comes."""
    process = subprocess.Popen([sys.executable, *step.arguments], start_new_session=True)
    try:
        code = process.wait(timeout=step.minutes_max * 60)
    except subprocess.TimeoutExpired:
        _end(process)
        return f"was not done after {step.minutes_max:g} minutes"
    except BaseException:
        _end(process)
        raise
    return None if code == 0 else f"ended with exit code {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Politely first, so that it can unmount and remove what it made; with everything it started at last."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(chosen: Sequence[Step]) -> list[str]:
    """All steps, however many fail; one line for each that did."""
    wrong = []
    began = time.monotonic()
    for number, step in enumerate(chosen, start=1):
        minutes = (time.monotonic() - began) / 60
        print(f"\n--- {number}/{len(chosen)} {step.title} (after {minutes:.1f} minutes)", flush=True)
        failure = run_step(step)
        if failure is not None:
            wrong.append(f"{step.title}: {failure} (python {' '.join(step.arguments)})")
            print(wrong[-1], flush=True)
    return wrong
