"""One line per event on stderr: time, level, logger, `what key=value ...`.

Names of topics and reasons of operators get into log lines, so line breaks are escaped: a line in the log is
always one that the controller wrote.
"""

from __future__ import annotations

import logging
import sys
import time

_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\x1b": "\\x1b", "\x00": "\\x00"})


class LineFormatter(logging.Formatter):
    """UTC with milliseconds. Tracebacks keep their lines, each indented so that it can't pass for an
    event."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_ESCAPES)

    def formatException(self, ei: object) -> str:
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {line}" for line in text.splitlines())


def configure_logging(level: str) -> None:
    """Send everything to stderr. Called once, by the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # kazoo says at INFO what we say ourselves, and at WARNING what a lost connection is.
    logging.getLogger("kazoo").setLevel(logging.ERROR if level != "debug" else logging.DEBUG)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("httptools").setLevel(logging.WARNING)
