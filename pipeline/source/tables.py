"""Tables of a catalog: `CREATE TABLE orders USING springtide OPTIONS (...)`.

Spark 4.3 keeps a table's options, but gives them to a Python source only while it creates the table. Later it
gives the columns, so the options travel as metadata of the first one. Only reads may take them from there:
what is written has the metadata of the rows' own columns, so `INSERT INTO copy SELECT * FROM orders` would
write to the topic that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from pipeline.client.config import CLIENT_PREFIX
from pipeline.client.security import SECRET_OPTIONS
from pipeline.errors import InvalidOption
from pipeline.options import by_lower_name

_PREFIX = "option."
"""What Spark puts before each option's name, beside the plain name, while it creates a table."""
_METADATA = "springtide"


def with_table_options(schema: StructType, given: Mapping[str, str]) -> StructType:
    """Return the schema, with its table's options if Spark asks for the schema of a table to be created.
    Raises InvalidOption for a secret: catalogs, and files that are written from the table, show the columns'
    metadata."""
    options = {
        name.removeprefix(_PREFIX): value
        for name, value in by_lower_name(given).items()
        if name.startswith(_PREFIX)
    }
    if not options:
        return schema
    for name in SECRET_OPTIONS:
        if CLIENT_PREFIX + name in options:
            raise InvalidOption(
                f"a table can't keep the secret '{CLIENT_PREFIX}{name}': leave it out, and give it behind "
                "WITH in each query"
            )
    first, *others = schema.fields
    kept = StructField(first.name, first.dataType, first.nullable, {_METADATA: options})
    return StructType([kept, *others])


def given_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return a read's options, over those of the table whose columns these are, if they are a table's."""
    kept = [field.metadata.get(_METADATA) for field in schema.fields]
    options: dict[str, str] = {}
    for one in kept:
        if isinstance(one, dict):
            options |= by_lower_name(one)
    return options | by_lower_name(given)
