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


def connector_jars(directory: Path = DIRECTORY) -> Sequence[Path]:
    """The connector and what it needs beyond PySpark's own jars; none if it is not there."""
    return sorted(directory.glob("*.jar"))


def connector_version(jars: Sequence[Path]) -> str | None:
    """Its release, which need not be PySpark's; None if it is not among them."""
    found = (jar.stem.removeprefix(_JAR) for jar in jars if jar.name.startswith(_JAR))
    return next(found, None)


def connector_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Of a session that is to know `format("kafka")`."""
    return {"spark.jars": ",".join(map(str, jars))} if jars else {}
