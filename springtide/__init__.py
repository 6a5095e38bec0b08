"""The parts that the planes share: the Kafka protocol, processes that speak it, and the command line.

kio imports hypothesis wherever it is installed, which in a development environment costs each process half
a second at start, some forty megabytes, and Spark's Python workers 25 ms of garbage collection a task. So kio
is imported here without it, except in a process that already tests with it.
"""

import sys

if not {"hypothesis", "pytest", "kio.static.primitive"} & sys.modules.keys():
    sys.modules["hypothesis"] = None  # type: ignore[assignment] # `import hypothesis` raises ImportError
    try:
        import kio.static.primitive  # noqa: F401 - what imports hypothesis
    finally:
        del sys.modules["hypothesis"]
