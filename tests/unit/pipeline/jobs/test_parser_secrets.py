"""Secrets for Spark have no place in a command line."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from pipeline.jobs.parser import spark_remote, spark_setting


def test_a_secret_is_refused_without_being_repeated() -> None:
    for parse, text in (
        (spark_setting, "spark.hadoop.fs.s3a.secret.key=0123abc"),
        (spark_setting, "spark.hadoop.fs.s3a.access.key=0123abc"),
        (spark_setting, "spark.ssl.keyPassword=0123abc"),
        (spark_remote, "sc://host:15002/;use_ssl=true;token=0123abc"),
    ):
        with pytest.raises(ArgumentTypeError, match="every user of this host can read") as refused:
            parse(text)
        assert "0123abc" not in str(refused.value)


def test_other_arguments_are_taken_as_they_are() -> None:
    assert spark_setting("spark.sql.shuffle.partitions=8") == ("spark.sql.shuffle.partitions", "8")
    assert spark_remote("sc://host:15002/;use_ssl=true") == "sc://host:15002/;use_ssl=true"
