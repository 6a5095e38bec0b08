"""What Sparks get that live for minutes: less of what pays off later only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What the second compiler saves they do not live to see."""
DRIVER_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}
)
"""Of a process that starts a driver: for its JVM, and for the one that finds out how to start it."""


def home_without_python(folder: Path) -> Path:
    """Make a SPARK_HOME below the folder that has no `pyspark.zip`. Each Python that a driver or an executor
    starts would compile PySpark from it anew, 0.6 to 1.1 s of a core; now it imports the installed one, which
    is compiled."""
    return linked_home(folder / "spark-home", without="python")


def linked_home(home: Path, *, without: str) -> Path:
    """Make a folder of links to all that PySpark's has but one entry."""
    import pyspark  # may be absent where conftest.py is only read

    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != without:
            (home / entry.name).symlink_to(entry)
    return home
