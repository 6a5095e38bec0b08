"""dlt: a pipeline whose resource reads a topic, as its Kafka source does, and that loads it into DuckDB."""

import os

import dlt
from confluent_kafka import Consumer


@dlt.resource(name="lines", write_disposition="append")
def lines():
    settings = {"bootstrap.servers": os.environ["BOOTSTRAP"], "group.id": os.environ["GROUP"]}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([os.environ["SOURCE"]])
    for _ in range(20):
        yield {"value": consumer.consume(1, timeout=30)[0].value().decode()}
    consumer.close()


pipeline = dlt.pipeline("lines", destination="duckdb", pipelines_dir=f"{os.environ['FOLDER']}/pipelines")
pipeline.run(lines)
with pipeline.sql_client() as client, client.execute_query("SELECT value FROM lines") as rows:
    for row in sorted(rows.fetchall(), key=lambda one: int(one[0].split()[1])):
        print(row[0])
