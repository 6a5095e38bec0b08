"""What a Python worker of Spark keeps in memory, and out of its garbage collector's way."""

from __future__ import annotations

import gc
import subprocess
import sys

from pipeline.worker_process import calm_the_collector


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


def test_a_worker_loads_no_library_of_tests_and_its_user_still_can() -> None:
    program = (
        "import sys, pipeline.source.batch, pipeline.sink.writer\n"
        "assert not {'hypothesis', 'trio', '_pytest'} & sys.modules.keys(), 'loaded'\n"
        "import hypothesis"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
