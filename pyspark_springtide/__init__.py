# ruff: noqa: PLC0415 - what a method needs is imported there, see below
"""`format("springtide")`: Spark imports every module named pyspark_* and registers its DefaultSource.

An import error here would break the look-up of every data source, so nothing but PySpark is imported before
the source is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from pipeline.source.options import SourceOptions


class DefaultSource(DataSource):
    """Topics of a Springtide or Kafka cluster, with the options of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "springtide"

    def schema(self) -> StructType:
        """Fixed by the options `view`, `columns` and `includeHeaders`."""
        from pipeline.source.options import parse_shape
        from pipeline.source.schemas import schema_of
        from pipeline.source.tables import with_table_options
        from pipeline.worker_process import calm_the_collector

        calm_the_collector()
        return with_table_options(schema_of(parse_shape(self.options)), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pipeline.source.batch import batch_reader
        from pipeline.worker_process import calm_the_collector

        calm_the_collector()
        return batch_reader(self._read_options(schema, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pipeline.source.stream import RecordStreamReader

        return RecordStreamReader(self._read_options(schema, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pipeline.sink.writer import batch_writer
        from pipeline.worker_process import calm_the_collector

        calm_the_collector()
        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pipeline.sink.writer import stream_writer
        from pipeline.worker_process import calm_the_collector

        calm_the_collector()
        return stream_writer(self.options, schema)

    def _read_options(self, schema: StructType, *, is_streaming: bool) -> SourceOptions:
        from pipeline.source.options import parse_options
        from pipeline.source.schemas import check_schema
        from pipeline.source.tables import given_options

        options = parse_options(given_options(schema, self.options), is_streaming=is_streaming)
        check_schema(schema, options.shape)
        return options
