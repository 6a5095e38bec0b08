"""What JVMs of Spark get that live for minutes: what the second compiler saves they do not live to see."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}
)
"""Of a process that starts a driver: for its JVM, and for the one that finds out how to start it."""
