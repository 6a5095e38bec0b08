"""One second try for a test that runs processes: alone, and told (`-p tests.second_try`).

A machine that is busy with something else makes such a test fail now and then, and no landing may hang on
that. If few tests fail, they are run once more when all else is over, in one process. If they then pass, the
run passes, and both outputs stand at its end, under "passed only when run again": the next change finds the
cause, which is a bug of the product or of the test. Tests without processes get no second try.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

TESTS_MAX: Final = 5
"""More than these are no accident."""
SECONDS_MAX: Final = 600
IS_SECOND: Final = "SPRINGTIDE_SECOND_TRY"
LINES_SHOWN_MAX: Final = 60
TOLD: Final = "passed only when run again"


@pytest.hookimpl(trylast=True)  # after the workers' clusters are gone
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if (
        hasattr(config, "workerinput")
        or IS_SECOND in os.environ
        or exitstatus != pytest.ExitCode.TESTS_FAILED
    ):
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(reporter, pytest.TerminalReporter)
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    names = sorted({report.nodeid for report in failed})
    if not 0 < len(names) <= TESTS_MAX:
        return
    reporter.write_sep("=", f"{len(names)} failed: once more, alone")
    has_passed, output = _again(config, names)
    config.stash[_SECOND] = (names, output)
    if not has_passed:
        return
    session.exitstatus = pytest.ExitCode.OK
    for category in ("failed", "error"):
        reporter.stats.pop(category, None)
    reporter.stats[TOLD] = failed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _SECOND not in config.stash:
        return
    names, output = config.stash[_SECOND]
    again = terminalreporter.stats.get(TOLD, ())
    terminalreporter.write_sep("=", TOLD if again else "failed again, alone")
    for report in again:
        terminalreporter.write_sep("-", f"first: {report.nodeid}")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-LINES_SHOWN_MAX:]))
    terminalreporter.write_sep("-", "second")
    terminalreporter.write_line("\n".join(output.splitlines()[-LINES_SHOWN_MAX:]))
    terminalreporter.write_line("\n".join(names))


_SECOND = pytest.StashKey[tuple[list[str], str]]()


def _again(config: pytest.Config, names: list[str]) -> tuple[bool, str]:
    """Run the tests with the options of this run. Return whether all passed, and the output."""
    options = [each for each in config.invocation_params.args if each not in config.args]
    command = [sys.executable, "-m", "pytest", *options, "-n", "0", "-p", "no:cacheprovider", *names]
    try:
        run = subprocess.run(
            command,
            cwd=config.rootpath,
            env={**os.environ, IS_SECOND: "1", "PROOF_TABLE": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"not over within {SECONDS_MAX} s"
    return run.returncode == pytest.ExitCode.OK, run.stdout
