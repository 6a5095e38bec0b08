"""PyFlink: a job from topic to topic with the exactly-once sink, which goes on at its last checkpoint."""

import os
import sys
from pathlib import Path

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

BOOTSTRAP, GROUP = os.environ["BOOTSTRAP"], os.environ["GROUP"]
checkpoints = Path(os.environ["FOLDER"], "checkpoints")
settings = Configuration()
settings.set_string(
    "pipeline.jars", ";".join(path.as_uri() for path in Path(os.environ["JARS"]).glob("*.jar"))
)
settings.set_string("python.executable", sys.executable)
settings.set_string("execution.checkpointing.interval", "2 s")
settings.set_string("execution.checkpointing.dir", checkpoints.as_uri())
settings.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
done = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
if done:
    settings.set_string("execution.state-recovery.path", done[-1].parent.as_uri())
environment = StreamExecutionEnvironment.get_execution_environment(settings)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers(BOOTSTRAP)
    .set_topics(os.environ["SOURCE"])
    .set_group_id(GROUP)
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
schema = (
    KafkaRecordSerializationSchema.builder()
    .set_topic(os.environ["TARGET"])
    .set_value_serialization_schema(SimpleStringSchema())
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers(BOOTSTRAP)
    .set_record_serializer(schema)
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix(GROUP)
    .set_property("transaction.timeout.ms", "600000")
    .build()
)
lines = environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
lines.map(str.upper, Types.STRING()).sink_to(sink)
environment.execute()
