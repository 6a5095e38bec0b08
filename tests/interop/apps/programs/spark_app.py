"""Spark's own connector: a stream from topic to topic."""

import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import upper

jars = ",".join(str(path) for path in Path(os.environ["JARS"]).glob("*.jar"))
spark = SparkSession.builder.master("local[2]").config("spark.jars", jars).getOrCreate()
about = {"kafka.bootstrap.servers": os.environ["BOOTSTRAP"]}
lines = spark.readStream.format("kafka").options(**about, subscribe=os.environ["SOURCE"]).load()
loud = lines.select(upper(lines.value.cast("string")).alias("value"))
checkpoint = f"{os.environ['FOLDER']}/checkpoint"
sink = loud.writeStream.format("kafka").options(
    **about, topic=os.environ["TARGET"], checkpointLocation=checkpoint
)
sink.start().awaitTermination()
