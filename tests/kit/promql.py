"""What an expression of PromQL names: enough of the language for the rules and panels tested here."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_DURATION: Final = re.compile(r"\[[^\]]*\]")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR: Final = re.compile(r"([A-Za-z_:][\w:]*)\s*\{([^}]*)\}")
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_:][\w:]*(?!\w)(?!\s*\()")
_OPERATORS: Final = frozenset({"and", "or", "unless", "bool", "offset"})


class Named(NamedTuple):
    """metrics: each with the labels that are asked of it. groups: labels that results are grouped by."""

    metrics: dict[str, frozenset[str]]
    groups: frozenset[str]


def named_in(expression: str) -> Named:
    """Return the metrics and labels of an expression."""
    bare = _DURATION.sub("", _STRING.sub('""', expression))
    groups = frozenset(
        label.strip() for found in _GROUPING.findall(bare) for label in found.split(",") if label.strip()
    )
    bare = _GROUPING.sub("", bare)
    metrics: dict[str, frozenset[str]] = {}
    for name, matchers in _SELECTOR.findall(bare):
        labels = frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        metrics[name] = metrics.get(name, frozenset()) | labels
    for name in _WORD.findall(_SELECTOR.sub("", bare)):
        # An aggregation's word is no metric, also where its grouping stood between it and its bracket.
        if name not in _OPERATORS and not re.search(rf"\b{name}\s*\(", bare):
            metrics.setdefault(name, frozenset())
    return Named(metrics, groups)
