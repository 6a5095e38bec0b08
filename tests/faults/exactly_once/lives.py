"""The applications' processes, which are struck and started again."""

from __future__ import annotations

import sys
from pathlib import Path

from localcluster.processes import ProcessCommand, SupervisedProcess

ROOT = Path(__file__).resolve().parents[3]
STOP_SECONDS_MAX = 90.0
"""A transaction that is being ended is ended."""


class Application:
    """A biller or a teller over its lives; a transactional id is one's own for ever."""

    def __init__(self, role: str, number: int, *, directory: Path, bootstrap: str) -> None:
        self.name = f"{role}-{number}"
        self.report = directory / f"{self.name}.report"
        self.report.touch()
        self.process = SupervisedProcess(
            name=self.name,
            command=ProcessCommand(
                arguments=[
                    *(sys.executable, "-m", "tests.faults.exactly_once.application", role),
                    *("--bootstrap", bootstrap),
                    *("--name", self.name),
                    *("--branch", str(number)),
                    *("--report", str(self.report)),
                ],
                working_directory=ROOT,
            ),
            log_path=directory / "logs" / f"{self.name}.log",
        )

    def start(self) -> None:
        self.process.start()

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def start_again(self) -> bool:
        """Do as a supervisor does where it ended by itself; return whether it had."""
        if not self.process.has_failed:
            return False
        self.process.start()
        return True

    def stop(self) -> bool:
        """End it as an operator does; return whether it went by itself."""
        return self.process.stop(timeout_seconds=STOP_SECONDS_MAX)

    def answered(self) -> list[str]:
        """What it was told is committed; a kill may have cut the last line."""
        return self.report.read_text(encoding="ascii").split("\n")[:-1]
