"""`python -m tests.fuzz.search TARGET FOLDER [options of libFuzzer]`: one process of Atheris, which it ends.

The modules that read outsiders' bytes are instrumented while they are imported, so this comes first."""

from __future__ import annotations

import sys

import atheris

INSTRUMENTED = ["springtide", "springtide.contract", "joserfc"]


def main() -> None:
    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name].run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
