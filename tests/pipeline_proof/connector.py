"""Spark's own Kafka connector, which what is ours is compared with, where `make connector` could get it.

Its jars are not part of PySpark and not on PyPI, so nothing but comparisons may need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "build" / "spark-kafka"
FORMAT = "kafka"
NOT_AT_HAND = "its jars are not part of PySpark, and `make connector` could not get them"
_JAR = "spark-sql-kafka-0-10_2.13-"


def _jars() -> Sequence[Path]:
    """The connector and what it needs beyond PySpark's own jars; none if it is not there."""
    return sorted(DIRECTORY.glob("*.jar"))


def connector_version() -> str | None:
    """Its release, which need not be PySpark's; None if it is not at hand."""
    found = (jar.stem.removeprefix(_JAR) for jar in _jars() if jar.name.startswith(_JAR))
    return next(found, None)


def connector_settings() -> dict[str, str]:
    """Of a session that is to know `format("kafka")`; none where it is not at hand."""
    jars = _jars()
    return {"spark.jars": ",".join(map(str, jars))} if jars else {}
