"""`pipeline`: reads the command line, runs the job, prints what came of it, exits with its status."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from pipeline.client.errors import AccessRefused, ClientError, InvalidClientOption
from pipeline.errors import AdvisedError, InvalidOption
from pipeline.jobs.context import Context
from pipeline.jobs.job import PROG, Job, JobExit
from pipeline.jobs.parser import parse
from springtide.cli.call import UsageError
from springtide.cli.client import RequestRefused, Unreachable
from springtide.cli.console import Console
from springtide.cli.problems import problem_lines
from springtide.log_lines import configure_logging
from springtide.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Lines that are shown of Spark's message about a failed worker.
SPARK_LINES_MAX = 6


def main(arguments: Sequence[str] | None = None, *, spark: SparkSession | None = None) -> int:
    """Return the exit status. spark: used instead of a new session, and not stopped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal can't show
    if arguments is None:
        configure_logging("warning")  # what is ordinary the job tells by itself
    words = sys.argv[1:] if arguments is None else list(arguments)
    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    try:
        return execute(words, sys.stdout, sys.stderr, columns=columns, spark=spark)
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return JobExit.DONE


def execute(
    arguments: Sequence[str],
    out: TextIO,
    err: TextIO,
    *,
    columns: int | None = None,
    spark: SparkSession | None = None,
) -> int:
    options = parse(arguments, version=VERSION)
    console = Console(out, err, name=PROG, is_json=options.output == "json", screen=err, columns=columns)
    context = Context(options, console, os.environ, session=spark)
    job: Job = options.job
    try:
        outcome = job.run(options, context)
        if console.is_json:
            console.lines([json.dumps(outcome.result, default=str, ensure_ascii=False)])
        else:
            console.lines(outcome.lines)
        return outcome.status
    except (UsageError, InvalidClientOption, InvalidOption) as error:
        console.fail(str(error))
        return JobExit.USAGE
    except AdvisedError as error:
        console.fail(str(error), *filter(None, [error.advice]))
        return JobExit.FOUND
    except RequestRefused as error:
        for line in problem_lines(error.status, error.body):
            console.note(line)
        return JobExit.FOUND
    except AccessRefused as error:
        console.fail(str(error))
        return JobExit.FOUND
    except (ClientError, Unreachable) as error:
        console.fail(str(error))
        return JobExit.UNREACHABLE
    except KeyboardInterrupt:
        console.fail("interrupted")
        return JobExit.INTERRUPTED
    except Exception as error:
        if not _is_spark_error(error):
            raise
        console.fail("\n".join(spark_reason(str(error))))
        return JobExit.FOUND
    finally:
        context.close()


def spark_reason(text: str) -> list[str]:
    """Return the lines of Spark's message that tell why: a Python worker's last error, else the first
    lines."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if line.lstrip().startswith("Traceback (most recent")]
    if ends:
        rest = lines[ends[-1] + 1 :]
        told = next((n for n, line in enumerate(rest) if not line.startswith((" ", "\t"))), 0)
        lines = rest[told:]
        stack = next((n for n, line in enumerate(lines) if line.lstrip().startswith("at ")), len(lines))
        lines = lines[:stack]
    return lines[:SPARK_LINES_MAX] or ["Spark failed and did not say why"]


def _is_spark_error(error: Exception) -> bool:
    errors = sys.modules.get("pyspark.errors")
    if errors is not None and isinstance(error, errors.PySparkException):
        return True
    gateway = sys.modules.get("py4j.protocol")
    return gateway is not None and isinstance(error, gateway.Py4JError)
