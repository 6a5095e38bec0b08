"""Builds a file of springtide/native, as it is or with a difference planted, for the process that runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from springtide.native.record_walk import choose_implementation

FOLDER = Path(__file__).parents[3] / "springtide/native"
CHOSEN = choose_implementation({})
_COMPILER = shutil.which("cc")

needs_native = pytest.mark.skipif(
    CHOSEN.name == "python" and not os.environ.get("CI_REQUIRED"), reason="the native part was not built"
)
needs_compiler = pytest.mark.skipif(
    _COMPILER is None and not os.environ.get("CI_REQUIRED"), reason="there is no C compiler"
)


def built_with(name: str, found: str, planted: str, folder: Path) -> ModuleType:
    """Build `name`.c with `planted` in the place of `found`, and import it."""
    assert _COMPILER is not None, "there is no C compiler, and CI must not skip this"
    source = (FOLDER / f"{name}.c").read_text(encoding="utf-8")
    assert found in source
    file, library = folder / f"{name}.c", folder / f"{name}.so"
    file.write_text(source.replace(found, planted), encoding="utf-8")
    headers = f"-I{sysconfig.get_path('include')}"
    subprocess.run([_COMPILER, "-shared", "-fPIC", "-w", headers, str(file), "-o", str(library)], check=True)
    loader = ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_file_location(name, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
