"""The measures of `make house` count what they say, and nothing where a file is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import measures
from tests.house.walks import Walk


@pytest.fixture(autouse=True)
def empty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    measures.arrows.cache_clear()
    measures.parsed.cache_clear()
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def test_a_call_counts_under_its_private_name_too_and_what_is_passed_on_apart() -> None:
    write("dataplane/a.py", "self._end_turn()\nend_turn()\nPart(end_turn=self.end_turn)\n")
    assert measures.calls_of("end_turn", *measures.PRODUCT) == 2
    assert measures.handed_out("end_turn", *measures.PRODUCT) == 1


def test_packages_that_import_each_other_are_named() -> None:
    write("controller/a.py", "from admin_api.b import c\n")
    write("admin_api/b.py", "import controller.a\nfrom springtide import wire\n")
    assert measures.imported_both_ways() == ["admin_api and controller"]
    assert measures.seen_by_rest() == "1, and its roots 0 more"


def test_a_class_has_its_public_methods_and_its_flags() -> None:
    source = """
class Engine:
    def __init__(self):
        self._is_on = True
        self._count = 0

    async def stop(self):
        self._is_on = False
"""
    write("controller/e.py", source)
    assert measures.methods("controller/e.py", "Engine") == 1
    assert measures.flags("controller/e.py", "Engine") == 1
    assert measures.longest_constructor() == (3, "controller/e.py:Engine")
    assert measures.flags("controller/gone.py", "Engine") == 0


def test_a_number_with_a_type_of_its_own_is_told_from_a_bare_one() -> None:
    write("springtide/n.py", 'Offset = NewType("Offset", int)\ndef f(start_offset: Offset | None): ...\n')
    write("dataplane/m.py", "class C:\n    leader_epoch: int\n    size: int\ndef _g(broker_id: int): ...\n")
    assert measures.numbers_in_signatures() == (1, 1)


def test_lines_are_counted_by_package_and_by_folder_of_tests() -> None:
    write("bench/a.py", "1\n2\n")
    write("tests/unit/bench/test_a.py", "1\n")
    sizes = measures.sizes()
    assert sizes["lines of bench"] == sizes["lines of the product"] == 2
    assert sizes["lines of tests/unit/bench"] == sizes["lines of the tests"] == 1


def test_a_walk_counts_files_once_and_each_change_between_them() -> None:
    one, other = compile("0", "a.py", "exec"), compile("0", "b.py", "exec")
    walk = Walk([(1, one), (2, one), (3, other), (9, one)])
    assert walk.figures() == {"files": 2, "calls": 4, "changes of file": 2}
    assert walk.between(2, 3).figures() == {"files": 2, "calls": 2, "changes of file": 1}


def test_a_command_has_the_seconds_that_it_left_and_none_before_its_first_run() -> None:
    assert measures.seconds() == {}
    write("build/seconds-ci", "3805\n")
    assert measures.seconds() == {"seconds of `.ci/run`": 3_805}
