"""What is changed, how the change is named, and that it is in the code that comes out."""

from __future__ import annotations

import ast
import fnmatch
from pathlib import Path
from types import FunctionType

import pytest

from tests.mutation.__main__ import drawn, is_explained, read_reasons, source_files, summary
from tests.mutation.forked import HANGS, KILLED, ROOT, SURVIVED, UNSEEN, Verdict
from tests.mutation.mutants import Mutant, functions, mutants_of, mutated_code

SOURCE = '''
BOUND = 7


class Box:
    """A text that is no number: 1."""

    def __init__(self) -> None:
        self.value = 0

    def holds(self, value: int) -> bool:
        """Return True."""
        if value == self.value and not value < 1:
            self.note(f"found {1}")
            return True
        return max(value, 2) > 3 or "a" == "b"

    def note(self, text: str) -> None:
        raise ValueError(text)
'''


def mutant(text: str) -> Mutant:
    return next(each for each in mutants_of("box.py", SOURCE) if each.text == text)


def function_of(each: Mutant) -> FunctionType:
    return FunctionType(mutated_code(SOURCE, each, path=Path("box.py")), {"max": max, "min": min})


def test_each_place_gives_its_changes_and_texts_and_the_module_give_none() -> None:
    assert [each.text for each in mutants_of("box.py", SOURCE) if each.function != "Box.holds"] == [
        "self.value = 0 -> pass",
        "0 -> 1 in self.value = 0",
        "raise ValueError(text) -> pass",
    ]
    texts = [each.text for each in mutants_of("box.py", SOURCE) if each.function == "Box.holds"]
    assert texts == [
        "value == self.value and (not value < 1) -> value == self.value or not value < 1",
        "value == self.value and (not value < 1) -> not value < 1",
        "value == self.value and (not value < 1) -> value == self.value",
        "value == self.value -> value != self.value",
        "value == self.value -> value >= self.value",
        "value == self.value -> value <= self.value",
        "not value < 1 -> value < 1",
        "value < 1 -> value <= 1",
        "value < 1 -> value > 1",
        "1 -> 2 in if value == self.value and (not value < 1):",
        "return max(value, 2) > 3 or 'a' == 'b' -> return None",
        "max(value, 2) > 3 or 'a' == 'b' -> max(value, 2) > 3 and 'a' == 'b'",
        "max(value, 2) > 3 or 'a' == 'b' -> 'a' == 'b'",
        "max(value, 2) > 3 or 'a' == 'b' -> max(value, 2) > 3",
        "max(value, 2) > 3 -> max(value, 2) >= 3",
        "max(value, 2) > 3 -> max(value, 2) < 3",
        "max(value, 2) -> min(value, 2)",
        "max(value, 2) -> value",
        "max(value, 2) -> 2",
        "2 -> 3 in return max(value, 2) > 3 or 'a' == 'b'",
        "3 -> 4 in return max(value, 2) > 3 or 'a' == 'b'",
        "'a' == 'b' -> 'a' != 'b'",
        "self.note(f'found {1}') -> pass",
        "True -> False in return True",
    ]


@pytest.mark.parametrize(
    ("text", "value", "answer"),
    [
        ("max(value, 2) > 3 -> max(value, 2) >= 3", 3, True),
        ("max(value, 2) -> min(value, 2)", 9, False),
        ("return max(value, 2) > 3 or 'a' == 'b' -> return None", 9, None),
        ("value == self.value -> value >= self.value", 9, None),
        ("self.note(f'found {1}') -> pass", 1, True),
    ],
)
def test_the_code_has_the_change_and_no_other(text: str, value: int, answer: object) -> None:
    class Box:
        def __init__(self) -> None:
            self.value = 1
            self.noted: list[str] = []

        def note(self, text: str) -> None:
            self.noted.append(text)

    box = Box()
    assert function_of(mutant(text))(box, value) in (answer, True if box.noted else answer)
    assert bool(box.noted) == (text.startswith("value ==") and value == 9)


def test_a_mutants_name_and_its_place_in_the_draw_outlive_what_is_written_elsewhere_in_the_file() -> None:
    moved = "import os\n\n\ndef first() -> int:\n    return 3 + 4\n" + SOURCE
    before, after = mutants_of("box.py", SOURCE), mutants_of("box.py", moved)
    assert {each.name for each in before} < {each.name for each in after}
    order = [each.name for each in drawn(before, files=["*"], sample=100, seed=3)]
    later = [each.name for each in drawn(after, files=["box.*"], sample=100, seed=3)]
    assert [name for name in later if name in order] == order
    assert drawn(before, files=["*"], sample=5, seed=3) == drawn(before, files=["*"], sample=9, seed=3)[:5]
    assert drawn(before, files=["other.py"], sample=5, seed=3) == []


def test_the_summary_names_the_survivors_that_have_no_reason_yet(tmp_path: Path) -> None:
    mutants = mutants_of("box.py", SOURCE)[:6]
    verdicts = (KILLED, HANGS, SURVIVED, UNSEEN, SURVIVED)
    results = {
        each.name: Verdict(each.name, each.lines[0], verdict, "", 0.1)
        for each, verdict in zip(mutants, verdicts, strict=False)
    }
    (tmp_path / "box.txt").write_text(
        f"# why\n{mutants[2].name}\n    a value object:\n    nothing else\n", encoding="utf-8"
    )
    reasons = read_reasons(tmp_path)
    assert reasons == {mutants[2].name: "a value object: nothing else"}
    assert summary(mutants, results, reasons).splitlines() == [
        f"unseen line {mutants[3].lines[0]}: {mutants[3].name}",
        f"survived line {mutants[4].lines[0]}: {mutants[4].name}",
        "5 of 6 tried: 1 killed, 1 hang, 2 survived, 1 on lines that no test executes; 60.0 % alive, "
        "1 of them with a reason",
    ]


def test_a_reason_may_stand_for_a_whole_kind() -> None:
    name = "box.py Box.first: self._all[0] * 2 -> self._all[0] / 2"
    assert is_explained(name, [name])
    assert is_explained(name, ["box.py Box.first: self._all[0] *"])
    assert not is_explained(
        name, ["box.py Box.last: *", "box.py Box.first: self._all[1] *", "box.py Box.first:"]
    )


def test_files_in_subfolders_are_mutated() -> None:
    assert {
        "dataplane/core/isr.py",
        "dataplane/core/compaction/known.py",
        "coordinator/core/groups/consumer/groups.py",
    } < set(source_files())


def test_each_reason_names_a_file_and_a_function_that_exist() -> None:
    there = {
        f"{file} {name}"
        for file in source_files()
        for _, name in functions(ast.parse((ROOT / file).read_text(encoding="utf-8")).body)
    }
    named = {reason.partition(": ")[0] for reason in read_reasons()}
    assert [each for each in sorted(named - there) if not fnmatch.filter(there, each)] == []
