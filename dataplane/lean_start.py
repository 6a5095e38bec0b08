"""Imported first by the broker's entry point: keeps a test library out of a storage server.

kio imports hypothesis wherever it is installed, which in a development environment costs each broker half
a second at start and some forty megabytes for as long as it runs. A process that already tests with it
keeps it.
"""

from __future__ import annotations

import sys

if not {"hypothesis", "pytest"} & sys.modules.keys():
    sys.modules["hypothesis"] = None  # type: ignore[assignment] # `import hypothesis` raises ImportError
