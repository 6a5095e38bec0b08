"""`pipeline pack`: what goes in, and that the archive is as Spark needs it."""

from __future__ import annotations

import argparse
import io
import tarfile
from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pipeline.errors import JobError
from pipeline.pack import job
from pipeline.pack.archive import write_archive
from pipeline.pack.contents import (
    OUR_PACKAGES,
    Packed,
    contents,
    is_left_out,
    parse_requirement,
    required,
    site_packages,
)
from springtide.cli.call import UsageError


class FakeDistribution(Distribution):
    """Installed files and requirements as they are told."""

    def __init__(self, root: Path, name: str, requires: tuple[str, ...], files: dict[str, str]) -> None:
        self._root = root
        self._texts = {"METADATA": "".join([f"Name: {name}\nVersion: 1.0\n", *map(self._line, requires)])}
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        self._texts["RECORD"] = "".join(f"{path},,\n" for path in files)

    @staticmethod
    def _line(requirement: str) -> str:
        return f"Requires-Dist: {requirement}\n"

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        return self._root / path


Installed = Callable[[str], Distribution]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """springtide[pipeline] needs arrow and pyspark, arrow needs numbers; tool stands alone."""
    told = {
        "springtide": (('pyspark==4.3; extra == "pipeline"', 'arrow>=18; extra == "pipeline"', "web"), {}),
        "arrow": (("Numbers_Fast[wide]>=2", "backport; python_version < '3.9'"), {"arrow/__init__.py": ""}),
        "numbers-fast": (('wide; extra == "wide"', 'docs; extra == "docs"'), {"numbers_fast.py": "1"}),
        "wide": ((), {"wide/__init__.py": "", "wide/tests/test_it.py": "", "wide/x.pyx": ""}),
        "docs": ((), {"docs.py": ""}),
        "web": ((), {"web.py": "", "../../../bin/web": "#!"}),
        "pyspark": (("py4j",), {"pyspark/__init__.py": ""}),
        "tool": (("numbers-fast",), {"tool.py": ""}),
    }
    root = tmp_path / "lib/python3/site-packages"
    known = {name: FakeDistribution(root, name, *rest) for name, rest in told.items()}

    def find(name: str) -> Distribution:
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    return find


def names(found: Any) -> set[str]:
    inside = site_packages() + "/"
    return {one.name.removeprefix(inside) for one in found.members if one.source is not None}


def test_what_the_pipeline_requires_is_packed_and_spark_is_not(installed: Installed) -> None:
    found = contents(find=installed)
    assert found.distributions == ("arrow 1.0", "numbers-fast 1.0", "springtide 1.0", "web 1.0", "wide 1.0")
    theirs = {name for name in names(found) if PurePosixPath(name).parts[0] not in OUR_PACKAGES}
    assert theirs == {"arrow/__init__.py", "numbers_fast.py", "wide/__init__.py", "web.py"}
    assert [one.name for one in found.members] == sorted({one.name for one in found.members})


def test_more_can_be_packed_and_less(installed: Installed) -> None:
    assert "tool 1.0" in contents(["Tool"], find=installed).distributions
    without = contents(left_out=["ARROW"], find=installed)
    assert without.distributions == ("springtide 1.0", "web 1.0"), "nor what only arrow needs"
    still = contents(["tool"], ["arrow"], find=installed)
    assert "numbers-fast 1.0" in still.distributions, "tool needs it, too"


def test_what_is_asked_for_and_not_installed_is_refused(installed: Installed) -> None:
    with pytest.raises(JobError, match="polars is not installed here"):
        contents(["polars"], find=installed)
    with pytest.raises(JobError, match="no name of a distribution"):
        contents(["--polars"], find=installed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numpy", ("numpy", frozenset())),
        ("Zope.Interface >= 3 ; sys_platform == 'x'", ("zope-interface", frozenset())),
        ("psycopg[binary, pool]>=3.2,<4", ("psycopg", frozenset({"binary", "pool"}))),
        ("pkg @ https://example.org/pkg.zip", ("pkg", frozenset())),
    ],
)
def test_a_requirement_names_a_distribution_and_extras(
    text: str, expected: tuple[str, frozenset[str]]
) -> None:
    assert parse_requirement(text) == expected


def test_extras_that_were_not_asked_for_are_not_required() -> None:
    lines = [
        "a",
        "b; extra == 'x'",
        'c; python_version > "3" and extra == "y"',
        "d; extra=='x' or extra=='z'",
    ]
    assert [name for name, _ in required(lines, frozenset())] == ["a"]
    assert [name for name, _ in required(lines, frozenset({"y"}))] == ["a", "c"]
    assert [name for name, _ in required(lines, frozenset({"z"}))] == ["a", "d"]


def test_tests_and_what_compilers_read_is_left_out() -> None:
    for path in (
        "numpy/tests/test_x.py",
        "numpy/core/a.pyi",
        "pyarrow/include/arrow/api.h",
        "x/__pycache__/y.pyc",
    ):
        assert is_left_out(PurePosixPath(path)), path
    for path in ("numpy/testing/__init__.py", "pyarrow/libarrow.so.2600", "x/py.typed", "x/data.json"):
        assert not is_left_out(PurePosixPath(path)), path


def test_this_environment_packs_with_all_that_tasks_import() -> None:
    found = contents()
    inside = names(found)
    assert {
        "pipeline/source/reading.py",
        "pyspark_springtide/__init__.py",
        "springtide/wire/apis.py",
    } <= inside
    assert {"numpy/__init__.py", "pyarrow/__init__.py", "kio/__init__.py"} <= inside
    assert not any(name.startswith(("pyspark/", "pip/", "tests/")) or "/tests/" in name for name in inside)
    (settings,) = [one for one in found.members if one.name == "pyvenv.cfg"]
    home = Path(settings.text.splitlines()[0].removeprefix("home = "))
    assert (home / "python3").exists()


@pytest.fixture
def members(tmp_path: Path) -> list[Packed]:
    program, plain = tmp_path / "program", tmp_path / "plain"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    plain.write_text("x = 1\n")
    return [
        Packed("bin/python", link="python3"),
        Packed("bin/python3", program),
        Packed("lib/a/b/c.py", plain),
        Packed("pyvenv.cfg", text="home = /usr/bin\n"),
    ]


def test_the_same_contents_give_the_same_bytes(members: list[Packed], tmp_path: Path) -> None:
    first, second = tmp_path / "one.tar.gz", tmp_path / "made/two.tgz"
    counted: list[int] = []
    size = write_archive(first, members, done=counted.append)
    for member in members:
        if member.source is not None:
            member.source.touch()
    assert write_archive(second, members) == size == first.stat().st_size
    assert first.read_bytes() == second.read_bytes()
    assert counted == [1, 2, 3, 4]


def test_folders_come_before_what_is_in_them_and_programs_stay_programs(
    members: list[Packed], tmp_path: Path
) -> None:
    path = tmp_path / "env.tar.gz"
    write_archive(path, members, level=0)
    with tarfile.open(path) as tar:
        infos = tar.getmembers()
        read = tar.extractfile("pyvenv.cfg")
        assert isinstance(read, io.BufferedReader)
        assert read.read() == b"home = /usr/bin\n"
    assert [info.name for info in infos] == [
        *("bin", "bin/python", "bin/python3"),
        *("lib", "lib/a", "lib/a/b", "lib/a/b/c.py", "pyvenv.cfg"),
    ]
    by_name = {info.name: info for info in infos}
    assert by_name["bin/python"].linkname == "python3"
    assert by_name["bin/python3"].mode == 0o755
    assert by_name["lib/a/b/c.py"].mode == 0o644
    assert by_name["lib/a"].isdir()


def test_what_spark_unpacks_badly_is_refused_by_name(members: list[Packed], tmp_path: Path) -> None:
    for name in ("env.tar", "env.zip", "env"):
        with pytest.raises(UsageError, match=r"\.tar\.gz"):
            write_archive(tmp_path / name, members)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "program"]


def test_a_file_that_can_not_be_read_leaves_no_archive_behind(members: list[Packed], tmp_path: Path) -> None:
    path = tmp_path / "env.tar.gz"
    path.write_bytes(b"the one before")
    with pytest.raises(FileNotFoundError):
        write_archive(path, [*members, Packed("lib/gone.py", tmp_path / "gone.py")])
    assert path.read_bytes() == b"the one before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["env.tar.gz", "plain", "program"]


def test_a_dry_run_says_what_would_be_packed_and_writes_nothing(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    job.add_arguments(parser)
    outcome = job.run(parser.parse_args([str(tmp_path / "env.tar.gz"), "--dry-run"]), None)  # type: ignore[arg-type]
    assert outcome.status == 0
    assert outcome.result["bytes"] is None
    assert outcome.result["files"] > 100
    assert any(line.startswith("pyarrow ") for line in outcome.lines)
    assert not list(tmp_path.iterdir())
