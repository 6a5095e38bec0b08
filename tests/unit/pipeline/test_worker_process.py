"""What a Python worker of Spark keeps in memory, and out of its garbage collector's way."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from pipeline.worker_process import calm_the_collector
from pyspark_springtide import DefaultSource

PLAIN = "at-least-once"


def test_what_is_loaded_is_left_out_of_the_collection_once() -> None:
    calm_the_collector.cache_clear()
    try:
        calm_the_collector()
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        later = [[] for _ in range(100)]  # type: ignore[var-annotated]
        calm_the_collector()
        assert gc.get_freeze_count() <= frozen + len(later) // 2
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("step", ["schema", "reader", "writer", "commit"])
def test_each_python_of_a_query_leaves_what_is_loaded_out_of_the_collection(step: str) -> None:
    """Each row is what one Python does: tell the schema, plan a read, plan a write, commit."""
    source = DefaultSource(
        {"kafka.bootstrap.servers": "a:1", "topic": "t", "subscribe": "t", "delivery": PLAIN}
    )
    schema = DefaultSource({}).schema()
    writer = source.writer(schema, False)
    gc.unfreeze()
    calm_the_collector.cache_clear()
    try:
        match step:
            case "schema":
                source.schema()
            case "reader":
                source.reader(schema)
            case "writer":
                source.writer(schema, False)
            case _:
                writer.commit([])
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()


def test_the_python_that_plans_a_stream_loads_nothing_that_decodes() -> None:
    program = (
        "import sys, pipeline.source.stream\n"
        "assert not {'pyarrow.compute', 'pipeline.records.decode'} & sys.modules.keys(), 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_worker_loads_no_library_of_tests_and_its_user_still_can() -> None:
    program = (
        "import sys, pipeline.source.batch, pipeline.sink.writer\n"
        "assert not {'hypothesis', 'trio', '_pytest'} & sys.modules.keys(), 'loaded'\n"
        "import hypothesis"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
