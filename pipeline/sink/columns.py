"""The columns of a frame that is written: those of Spark's Kafka sink, and a timestamp. Pure, without
PySpark: types come as Spark's simple strings ("binary", "array<...>")."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pipeline.errors import InvalidRows

HEADERS = "array<struct<key:string,value:binary>>"
ALLOWED = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS,),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The official sink's columns, and `timestamp` (SPARK-27585 asks for it). Others are left out."""


def check_columns(types: Mapping[str, str], *, has_topic_option: bool) -> None:
    """Raise InvalidRows for missing or wrong columns; types by column name."""
    given = {name.lower(): kind for name, kind in types.items()}
    if len(given) < len(types):
        raise InvalidRows("columns whose names differ only in case")
    if "value" not in given:
        raise InvalidRows("Required attribute 'value' not found")
    if "topic" not in given and not has_topic_option:
        raise InvalidRows(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a "
            "topic"
        )
    for name, allowed in ALLOWED.items():
        if name in given and given[name] not in allowed:
            raise InvalidRows(f"{name} attribute type must be {' or '.join(allowed)}, not {given[name]}")


def usable_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the allowed columns, under their names in lower case."""
    chosen = {name.lower(): index for index, name in enumerate(rows.schema.names)}
    names = [name for name in ALLOWED if name in chosen]
    return pa.RecordBatch.from_arrays([rows.column(chosen[name]) for name in names], names=names)
