"""The columns of each view, as Spark's types. records/ has the Arrow types; tests compare the two."""

from __future__ import annotations

from pyspark.sql import types

from pipeline.errors import InvalidOption
from pipeline.source.options import RowShape, SourceView

_HEADER = types.StructType(
    [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
)
HEADERS = types.ArrayType(_HEADER, containsNull=True)

RECORDS: dict[str, types.DataType] = {
    "key": types.BinaryType(),
    "value": types.BinaryType(),
    "topic": types.StringType(),
    "partition": types.IntegerType(),
    "offset": types.LongType(),
    "timestamp": types.TimestampType(),
    "timestampType": types.IntegerType(),
    "headers": HEADERS,
}
"""The columns of Spark's Kafka source; `headers` with includeHeaders."""

BATCHES: dict[str, types.DataType] = {
    "topic": types.StringType(),
    "partition": types.IntegerType(),
    "base_offset": types.LongType(),
    "last_offset": types.LongType(),
    "leader_epoch": types.IntegerType(),
    "crc": types.LongType(),
    "computed_crc": types.LongType(),
    "size_bytes": types.IntegerType(),
    "attributes": types.ShortType(),
    "producer_id": types.LongType(),
    "producer_epoch": types.ShortType(),
    "base_sequence": types.IntegerType(),
    "record_count": types.IntegerType(),
    "base_timestamp": types.LongType(),
    "max_timestamp": types.LongType(),
    "raw": types.BinaryType(),
}
"""A record batch's header; `raw`, the batch itself, only if `columns` names it."""

OFFSETS: dict[str, types.DataType] = {
    "topic": types.StringType(),
    "partition": types.IntegerType(),
    "earliest": types.LongType(),
    "latest": types.LongType(),
    "leader": types.IntegerType(),
    "leader_epoch": types.IntegerType(),
    "replicas": types.ArrayType(types.IntegerType(), containsNull=True),
    "isr": types.ArrayType(types.IntegerType(), containsNull=True),
}
"""A row for each partition: the offsets at which its log begins and ends now, and its replicas."""

_VIEWS = {SourceView.RECORDS: RECORDS, SourceView.BATCHES: BATCHES, SourceView.OFFSETS: OFFSETS}
_ONLY_ASKED = {SourceView.BATCHES: {"raw"}}


def columns_of(shape: RowShape) -> tuple[str, ...]:
    """Return a query's columns, in order. Raises InvalidOption for a name that the view lacks."""
    known = _VIEWS[shape.view]
    if shape.columns is not None:
        unknown = [name for name in shape.columns if name not in known]
        if unknown:
            raise InvalidOption(
                f"option 'columns': view '{shape.view.value}' has no {', '.join(unknown)}; it has "
                f"{', '.join(known)}"
            )
        return shape.columns
    left_out = set(_ONLY_ASKED.get(shape.view, ()))
    if shape.view is SourceView.RECORDS and not shape.include_headers:
        left_out.add("headers")
    return tuple(name for name in known if name not in left_out)


def schema_of(shape: RowShape) -> types.StructType:
    """Return the same as Spark's schema."""
    known = _VIEWS[shape.view]
    return types.StructType([types.StructField(name, known[name]) for name in columns_of(shape)])


def check_schema(given: types.StructType, shape: RowShape) -> None:
    """Raise InvalidOption if the user set another schema than the source's."""
    fixed = schema_of(shape)
    if [(one.name, one.dataType.simpleString()) for one in given.fields] != [
        (one.name, one.dataType.simpleString()) for one in fixed.fields
    ]:
        raise InvalidOption(
            f"this source has a fixed schema, {fixed.simpleString()}; option 'columns' chooses from it"
        )
