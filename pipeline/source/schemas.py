"""What columns each view has, as Spark's types. The Arrow side is records/'s; tests hold the two together."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline.source.errors import InvalidOption
from pipeline.source.options import Shape, View

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=True
)

RECORDS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
"""Those of Spark's Kafka source; `headers` is there under includeHeaders."""

BATCHES: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "base_offset": LongType(),
    "last_offset": LongType(),
    "leader_epoch": IntegerType(),
    "crc": LongType(),
    "computed_crc": LongType(),
    "size_bytes": IntegerType(),
    "attributes": ShortType(),
    "producer_id": LongType(),
    "producer_epoch": ShortType(),
    "base_sequence": IntegerType(),
    "record_count": IntegerType(),
    "base_timestamp": LongType(),
    "max_timestamp": LongType(),
    "raw": BinaryType(),
}
"""A record batch's header; `raw`, the batch itself, only where `columns` names it."""

OFFSETS: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "earliest": LongType(),
    "latest": LongType(),
    "leader": IntegerType(),
    "leader_epoch": IntegerType(),
    "replicas": ArrayType(IntegerType(), containsNull=True),
    "isr": ArrayType(IntegerType(), containsNull=True),
}
"""Where each partition's log begins and ends now, and who keeps it."""

_VIEWS = {View.RECORDS: RECORDS, View.BATCHES: BATCHES, View.OFFSETS: OFFSETS}
_ONLY_ASKED = {View.BATCHES: {"raw"}}


def columns_of(shape: Shape) -> tuple[str, ...]:
    """The columns a query has, in order. Raises InvalidOption for a name that the view lacks."""
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
    if shape.view is View.RECORDS and not shape.include_headers:
        left_out.add("headers")
    return tuple(name for name in known if name not in left_out)


def schema_of(shape: Shape) -> StructType:
    """The same as Spark's schema."""
    known = _VIEWS[shape.view]
    return StructType([StructField(name, known[name]) for name in columns_of(shape)])


def check_schema(given: StructType, shape: Shape) -> None:
    """Raises InvalidOption for a schema that the user set and that is not the source's own."""
    fixed = schema_of(shape)
    if [(one.name, one.dataType.simpleString()) for one in given.fields] != [
        (one.name, one.dataType.simpleString()) for one in fixed.fields
    ]:
        raise InvalidOption(
            f"this source has a fixed schema, {fixed.simpleString()}; option 'columns' chooses from it"
        )
