"""Tables of a catalog: `CREATE TABLE orders USING springtide OPTIONS (...)`.

Spark 4.3 keeps a table's options, but gives them to a Python source only while it creates the table. Later it
gives the columns, so the options travel as metadata of the first one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from pipeline.options import by_lower_name

_PREFIX = "option."
"""What Spark puts before each option's name, beside the plain name, while it creates a table."""
_METADATA = "springtide"


def with_table_options(schema: StructType, given: Mapping[str, str]) -> StructType:
    """Return the schema, with its table's options if Spark asks for the schema of a table to be created."""
    options = {
        name.removeprefix(_PREFIX): value
        for name, value in by_lower_name(given).items()
        if name.startswith(_PREFIX)
    }
    if not options:
        return schema
    first, *others = schema.fields
    kept = StructField(first.name, first.dataType, first.nullable, {_METADATA: options})
    return StructType([kept, *others])


def given_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return a query's options, over those of the table whose columns these are, if they are a table's."""
    found: dict[str, str] = {}
    for field in schema.fields:
        found.update(field.metadata.get(_METADATA, {}))
    return found | by_lower_name(given)
