"""The log of every process, on stderr: one line an event, as text or as JSON with the same names.

    2026-11-23T20:21:48.123Z level=info logger=controller.shell.leadership elected controller_epoch=4
    {"time": "…", "level": "info", "logger": "…", "event": "elected", "controller_epoch": 4}

A call names its event in constant words, and then its fields: `_log.info("elected controller_epoch=%d", …)`.
The formatter reads the names from the call's own text, never from values: a topic or a reason can't add a
field or a line. Values with spaces are quoted; what can't be printed is escaped.

While a request is served or an operation is carried out, its id is in every line (`ids_in_log`).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType, TracebackType
from typing import Final

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
#: What every line has; a call gives its fields other names.
LINE_NAMES: Final = ("time", "level", "logger", "event", "traceback")

#: From which level on a library may speak. kazoo says at INFO what we say ourselves, and at WARNING what a
#: lost connection is.
QUIET_LIBRARIES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "kazoo": logging.ERROR,
        "alembic": logging.WARNING,
        "httptools": logging.WARNING,
        "httpx": logging.WARNING,
    }
)

#: The fields at the end of a call's text.
_FIELDS = re.compile(r"(?:(?:^| )[a-z][a-z0-9_.]*=%[sdr])+$")
_FIELD_NAME = re.compile(r"([a-z][a-z0-9_.]*)=%[sdr]")
_TEMPLATES_MAX: Final = 1_024
_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})
_ids: ContextVar[Mapping[str, str]] = ContextVar("ids_in_log", default=_NO_IDS)

Scalar = str | int | float | bool | None


@contextmanager
def ids_in_log(**ids: str | None) -> Iterator[None]:
    """Put these ids into every line that is logged within, also by tasks and threads started there."""
    token = _ids.set({**_ids.get(), **{name: value for name, value in ids.items() if value is not None}})
    try:
        yield
    finally:
        _ids.reset(token)


def current_ids() -> Mapping[str, str]:
    """Return the ids of what is being done, for the task that goes on with it."""
    return _ids.get()


def configure_logging(level: str, log_format: str = "text") -> None:
    """Send all that this process logs to stderr, libraries' lines and its last words included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library, quietest in QUIET_LIBRARIES.items():
        logging.getLogger(library).setLevel(quietest)
    if level == "debug":
        logging.getLogger("kazoo").setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    sys.excepthook = _log_last_words


def _log_last_words(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("springtide").error("process_failed", exc_info=(kind, error, trace))


class _LineFormatter(logging.Formatter):
    """Takes a record apart into what every line has, the call's fields, and ids."""

    def split(self, record: logging.LogRecord) -> tuple[str, dict[str, Scalar]]:
        """Return the event and its fields."""
        names, words = _parse(record.msg) if isinstance(record.msg, str) else ((), "")
        values = record.args if isinstance(record.args, tuple) else ()
        if not names or len(values) < len(names):
            return record.getMessage(), dict(_ids.get())
        first = len(values) - len(names)
        event = words % values[:first]
        fields = {name: _scalar(value) for name, value in zip(names, values[first:], strict=True)}
        return event, {**_ids.get(), **fields}

    def trace(self, record: logging.LogRecord) -> str:
        """Return the traceback, "" if there is none. The record keeps none: another handler may show it
        otherwise."""
        parts = [self.formatException(record.exc_info)] if record.exc_info else []
        parts += [self.formatStack(record.stack_info)] if record.stack_info else []
        return "\n".join(parts)


class TextFormatter(_LineFormatter):
    """A traceback keeps its lines, each indented so that it can't pass for an event."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = self.split(record)
        parts = [_stamp(record), f"level={_level(record)}", f"logger={_printable(record.name)}"]
        parts += [_printable(event)] if event else []
        parts += [f"{name}={_quoted(value)}" for name, value in fields.items()]
        traced = [f"    {_printable(line)}" for line in self.trace(record).splitlines()]
        return "\n".join([" ".join(parts), *traced])


class JsonFormatter(_LineFormatter):
    """One object a line. Text that is not ASCII is escaped: each reader's encoding will do."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = self.split(record)
        line: dict[str, Scalar] = {
            "time": _stamp(record),
            "level": _level(record),
            "logger": record.name,
            "event": event,
            **fields,
        }
        traced = self.trace(record)
        return json.dumps({**line, "traceback": traced} if traced else line)


@lru_cache(_TEMPLATES_MAX)
def _parse(template: str) -> tuple[tuple[str, ...], str]:
    """Return the names of the fields at a template's end, and what is before them."""
    found = _FIELDS.search(template)
    if found is None:
        return (), template
    return tuple(_FIELD_NAME.findall(found[0])), template[: found.start()]


def _stamp(record: logging.LogRecord) -> str:
    stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return f"{stamp.removesuffix('+00:00')}Z"


def _level(record: logging.LogRecord) -> str:
    return record.levelname.lower()


def _scalar(value: object) -> Scalar:
    """Return what JSON keeps as it is, and any other value as its text."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _quoted(value: Scalar) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if value and value.isprintable() and not any(char in value for char in ' "='):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_printable(escaped)}"'


def _printable(text: str) -> str:
    """Escape what could end a line, turn its direction or move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
