"""What a container of the Dockerfile's image would find installed, without a container engine: of the files
that COPY brings, what the rules in pyproject.toml install."""

from __future__ import annotations

import shutil
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_IN_GIT = ("__pycache__", "*.pyc")


def copied_sources() -> list[str]:
    """Return the paths that the Dockerfile's COPY lines name, relative to the project."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = (line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line)
    return [source for copy in copies for source in copy]


def copy_context(into: Path) -> Path:
    """Copy what the Dockerfile's COPY lines name, and return the folder: what the project is built from."""
    context = into / "context"
    for source in copied_sources():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, context / source, ignore=shutil.ignore_patterns(*_NOT_IN_GIT))
        else:
            context.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, context / source)
    return context


def install_image(into: Path) -> Path:
    """Puts the packages there as `pip install .` puts them into site-packages, and returns that folder.
    Commands that are files of a package are put there, too, for what pip puts into bin."""
    context, installed = copy_context(into), into / "site-packages"
    tool = tomllib.loads((context / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    include, data = tool["packages"]["find"]["include"], tool["package-data"]["*"]
    for file in context.rglob("*"):
        relative = file.relative_to(context)
        package = ".".join(relative.parts[:-1])
        in_package = any(fnmatch(package, pattern) for pattern in include)
        is_installed = any(fnmatch(file.name, each) for each in ("*.py", *data))
        if file.is_file() and in_package and (is_installed or str(relative) in tool["script-files"]):
            (installed / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, installed / relative)
    return installed


def entry_points() -> dict[str, str]:
    """The commands that installing makes, and the function that each calls as `module:function`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        scripts: dict[str, str] = tomllib.load(file)["project"]["scripts"]
    return scripts
