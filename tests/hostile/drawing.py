"""What is asked, drawn from the OpenAPI document by schemathesis: equal seeds draw equal cases.

Two kinds. Its coverage phase walks the document: each bound, each type, each enum, each missing and each
unknown part, a case each; they are the same for every seed. Its fuzzing phase combines them at random.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.generation.modes import GenerationMode

from admin_api.openapi.document import build_document

Case = Any  # schemathesis types its cases by the operation's class, which is of no interest here
Operation = Any


class Drawer:
    """The document, parsed once."""

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        self.document = build_document() if document is None else document
        self.schema = schemathesis.openapi.from_dict(self.document)
        self.operations: dict[str, Operation] = {}
        for result in self.schema.get_all_operations():
            operation = result.ok()  # type: ignore[union-attr]  # Err.ok() raises
            self.operations[operation.label] = operation

    @property
    def labels(self) -> Sequence[str]:
        """Such as `POST /topics`, in the document's order."""
        return list(self.operations)

    def coverage(self, label: str) -> list[Case]:
        """The document's own examples, and each of its rules kept and broken."""
        return self._draw(label, [HypothesisTestMode.EXAMPLES, HypothesisTestMode.COVERAGE], 1, 0)

    def fuzz(self, label: str, count: int, seed: int) -> list[Case]:
        """At most so many: an operation that takes nothing has one case."""
        return self._draw(label, [HypothesisTestMode.FUZZING], count, seed)

    def positive(self, label: str, count: int, seed: int) -> list[Case]:
        """Only what the document allows."""
        return [case for case in self.fuzz(label, 2 * count, seed) if is_positive(case)][:count]

    def _draw(self, label: str, modes: list[HypothesisTestMode], count: int, seed: int) -> list[Case]:
        drawn: list[Case] = []

        def collect(case: Case) -> None:
            drawn.append(case)

        chosen = settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        config = HypothesisTestConfig(
            project=self.schema.config, modes=modes, settings=chosen, seed=number(f"{seed} {label}")
        )
        create_test(operation=self.operations[label], test_func=collect, config=config)()
        return drawn


def is_positive(case: Case) -> bool:
    """Whether the document allows it."""
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE


def allows(case: Case, location: str) -> bool:
    """Whether the document allows this part of it: `path`, `query`, `header`, `body`."""
    parts = {} if case.meta is None else case.meta.components
    return all(
        component.mode is GenerationMode.POSITIVE
        for where, component in parts.items()
        if where.value.lower().startswith(location)
    )


def number(name: str) -> int:
    """A seed by name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
