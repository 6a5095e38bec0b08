"""What the figures were measured on: without it they mean nothing next month."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """Names and numbers for the report; what this platform does not tell is left out."""
    facts: dict[str, Any] = {
        "processors": processors(),
        "processor": _processor_model(),
        "memory_gb": _memory_gb(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        # Builds of one version differ by a fifth: with a profile of a run, or without.
        "python_build": platform.python_build()[1],
        "springtide": version("springtide"),
        "trio": version("trio"),
        "confluent_kafka": version("confluent-kafka"),
        "load_average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }
    return {key: value for key, value in facts.items() if value is not None}


def keep(path: Path, document: Mapping[str, Any]) -> None:
    """Write a run's figures in place of an earlier run's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def _processor_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None


def _memory_gb() -> float:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
