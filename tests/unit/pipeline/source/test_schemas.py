"""Spark's columns and the decoder's: the one must be exactly what Spark makes of the other."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from pipeline.errors import InvalidOption
from pipeline.records.decode import RECORD_COLUMNS, record_schema
from pipeline.records.headers import HEADER_SCHEMA
from pipeline.source.options import RowShape, SourceView
from pipeline.source.schemas import BATCHES, RECORDS, check_schema, columns_of, schema_of
from pipeline.source.tables import given_options, with_table_options


@pytest.mark.parametrize("columns", [None, RECORD_COLUMNS, ("value", "offset"), ("headers",)])
@pytest.mark.parametrize("include_headers", [False, True])
def test_records_have_the_schema_that_spark_expects_of_arrow(
    columns: tuple[str, ...] | None, include_headers: bool
) -> None:
    shape = RowShape(SourceView.RECORDS, columns, include_headers)
    spark = to_arrow_schema(schema_of(shape), timezone="UTC")
    assert spark.equals(record_schema(columns_of(shape)))


def test_batches_have_it_too() -> None:
    shape = RowShape(SourceView.BATCHES)
    assert to_arrow_schema(schema_of(shape), timezone="UTC").equals(HEADER_SCHEMA)
    assert tuple(BATCHES) == (*HEADER_SCHEMA.names, "raw")


def test_headers_are_there_when_they_are_included_or_named() -> None:
    assert columns_of(RowShape()) == tuple(RECORDS)[:-1]
    assert columns_of(RowShape(include_headers=True)) == tuple(RECORDS)
    assert columns_of(RowShape(columns=("headers", "key"))) == ("headers", "key")


def test_columns_that_a_view_lacks_are_refused() -> None:
    with pytest.raises(InvalidOption, match="view 'offsets' has no value; it has topic, partition, earliest"):
        columns_of(RowShape(SourceView.OFFSETS, ("value",)))


def test_a_schema_of_the_users_own_is_refused() -> None:
    check_schema(schema_of(RowShape()), RowShape())
    with pytest.raises(InvalidOption, match="fixed schema"):
        check_schema(StructType([StructField("value", LongType())]), RowShape())


def test_a_table_that_is_created_keeps_its_options_with_its_columns() -> None:
    given = {"provider": "springtide", "owner": "me", "subscribe": "t", "option.Subscribe": "t"}
    kept = StructType.fromJson(with_table_options(schema_of(RowShape()), given).jsonValue())
    assert given_options(kept, {}) == {"subscribe": "t"}
    assert given_options(kept, {"Subscribe": "u"}) == {"subscribe": "u"}
    check_schema(kept, RowShape())
    plain = schema_of(RowShape())
    assert with_table_options(plain, {"subscribe": "t"}) is plain
    assert given_options(plain, {}) == {}
    another = StructType([StructField("value", LongType(), metadata={"springtide": "of another program"})])
    assert given_options(another, {}) == {}


@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config", "sasl.oauthbearer.token"])
def test_a_table_refuses_to_keep_a_secret(name: str) -> None:
    given = {"option.subscribe": "t", f"option.kafka.{name}": "s3cret"}
    with pytest.raises(InvalidOption, match=f"the secret 'kafka.{name}'.*WITH in each query") as caught:
        with_table_options(schema_of(RowShape()), given)
    assert "s3cret" not in str(caught.value)
