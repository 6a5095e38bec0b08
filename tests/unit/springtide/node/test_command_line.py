"""What a serving process makes of its own process before it begins."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource
from springtide.node.command_line import favour_the_loop
favour_the_loop()
def fill():
    return [bytearray(1_100_000) for _ in range(8)]
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_the_memory_of_large_requests_is_kept_for_the_next_ones() -> None:
    """Eight of a megabyte, twenty times: given back and had anew, they would be 43,000 pages."""
    ended = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 4_000


@pytest.mark.parametrize("program", ["dataplane", "coordinator"])
def test_a_process_starts_without_what_only_tls_and_tokens_need(program: str) -> None:
    """A sixth of its memory."""
    script = (
        f"import {program}.__main__, sys\n"
        "print({'cryptography', 'joserfc'} & sys.modules.keys() or 'without')"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "without\n"
