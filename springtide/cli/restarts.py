"""The commands that restart a process, as lists of words: no shell of this machine reads them. Pure.

Hosts' names come from the cluster. One that a remote shell or an option parser could take for something else
than a name is refused.
"""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Final

from springtide.cli.rolling import RolledProcess

FIELDS: Final = ("kind", "id", "host", "unit")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
#: A host's name or an IP address: nothing that begins with `-`, and nothing that a shell reads.
_SAFE: Final = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:-]{0,252}")

MakeCommand = Callable[[RolledProcess], list[str]]


class UnsafeName(Exception):
    """The name of a process or its host can't be put into a command. The message names it."""


def template(text: str) -> tuple[str, ...]:
    """Parse a command with fields in braces, into its words. Raise ArgumentTypeError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ArgumentTypeError(f"{error}: {text!r}") from error
    if not words:
        raise ArgumentTypeError("is empty")
    unknown = [name for word in words for name in _FIELD.findall(word) if name not in FIELDS]
    if unknown:
        named = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise ArgumentTypeError(f"knows {named}, not {{{unknown[0]}}}")
    return words


def by_template(words: tuple[str, ...]) -> MakeCommand:
    """Return how to restart a process by a command that `template` parsed."""

    def make(process: RolledProcess) -> list[str]:
        host = _safe(process.host, process)
        name = _safe(process.name, process)
        is_one = process.kind == "controller"
        values = {
            "kind": process.kind,
            "id": name,
            "host": host,
            "unit": f"springtide-{process.kind}" if is_one else f"springtide-{process.kind}@{name}",
        }
        return [_FIELD.sub(lambda found: values[found[1]], word) for word in words]

    return make


def by_kubectl(*, namespace: str, context: str | None) -> MakeCommand:
    """Return how to restart a pod of packaging/kubernetes: it is deleted, and its StatefulSet makes it anew
    from the template as it is then. kubectl returns when the old pod has ended."""

    def make(process: RolledProcess) -> list[str]:
        chosen = [] if context is None else ["--context", context]
        return [
            "kubectl",
            *chosen,
            "--namespace",
            namespace,
            "delete",
            "pod",
            _safe(pod_of(process), process),
        ]

    return make


def pod_of(process: RolledProcess) -> str:
    """Return the pod's name: `broker-3`; of a controller, the first label of its host's name."""
    if process.kind == "controller":
        return process.host.partition(".")[0]
    return f"{process.kind}-{process.name}"


def _safe(text: str, process: RolledProcess) -> str:
    if not _SAFE.fullmatch(text):
        raise UnsafeName(f"{process.title}: {text!r} is no name that can be put into a command")
    return text
