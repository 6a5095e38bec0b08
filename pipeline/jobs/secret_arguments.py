"""Arguments for Spark in which a secret may be: refused, since every user of a host can read its processes'
arguments."""

from __future__ import annotations

import argparse
import re
from typing import Final

from springtide.cli.arguments import setting

#: Spark's own rule for what it shows to no one (spark.redaction.regex).
_SECRET: Final = re.compile(r"(?i)secret|password|token|access[.]?key")


def spark_setting(text: str) -> tuple[str, str]:
    """K=V, for argparse's `type`."""
    name, value = setting(text)
    if _SECRET.search(name):
        raise argparse.ArgumentTypeError(
            f"{name} is a secret, and every user of this host can read it here: put it into "
            "conf/spark-defaults.conf, readable by your user only"
        )
    return name, value


def spark_remote(text: str) -> str:
    """The URL of a Spark Connect server, for argparse's `type`."""
    if re.search(r"(?i);token=", text):
        raise argparse.ArgumentTypeError(
            "there is a token in it, which every user of this host can read here: give the URL in the "
            "environment variable SPARK_REMOTE"
        )
    return text
