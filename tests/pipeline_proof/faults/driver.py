"""The Spark driver that is killed: `python -m tests.pipeline_proof.faults.driver MASTER`.

It makes its session, says so, and then runs one query for each line of standard input (a JSON object, see
`Query`), to its end or its exception; a line of JSON after `@` says which. It ends when its input does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.pipeline_proof.connector import connector_settings

MARK = "@"


def make_session(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("pipeline-proof")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "700m",  # what local-cluster's workers have
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
        # An executor that is killed is nothing to be put on a list for: the next one is as good.
        "spark.excludeOnFailure.enabled": "false",
        "spark.task.maxFailures": "8",
        **connector_settings(),
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(spark: Any, query: dict[str, Any]) -> dict[str, Any]:
    """One query: topic to topic, whatever is there now, in micro-batches."""
    try:
        rows = spark.readStream.format("springtide").options(**query["source"]).load()
        running = (
            rows.select("key", "value")
            .writeStream.format(query["sink_format"])
            .options(**query["sink"])
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
    except Exception as error:
        return {"failed": str(error)[:4000]}
    return {"failed": None}


def main(master: str) -> None:
    spark = make_session(master)
    # Warm: what the first query of a session has to load is loaded before anybody counts requests.
    spark.range(0, 4, 1, 2).rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    print(MARK + json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(MARK + json.dumps(run(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
