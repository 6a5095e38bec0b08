"""The rules that make a principal's name of a certificate's subject: `ssl.principal.mapping.rules`, in
Kafka's grammar.

    RULE:pattern/replacement/[LU]    the first whose pattern is the whole subject; $1 is its first group,
                                     L or U makes the result lower or upper case
    DEFAULT                          the subject as it is

Pure. Source: KIP-371.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

RULES_MAX: Final = 100
_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?))\s*(?:,\s*|\Z)")
_REFERENCE: Final = re.compile(r"\\(.)|\$([0-9])", re.DOTALL)


class CertificateUnusable(Exception):
    """A client can't be known by this certificate."""


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One rule. pattern: None for DEFAULT. case: "L", "U" or ""."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Return the name; None if the rule does not fit."""
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        name = _REFERENCE.sub(lambda part: part[1] or match[int(part[2])] or "", self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


DEFAULT_RULES: Final = (PrincipalRule(None),)


def parse_principal_rules(text: str) -> tuple[PrincipalRule, ...]:
    """Return the rules of a setting; none given is DEFAULT. Raise ValueError."""
    rules: list[PrincipalRule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ValueError(
                f"{text[position:]!r} does not begin with RULE:pattern/replacement/[LU] or DEFAULT"
            )
        rules.append(PrincipalRule(None) if match[1] else _rule(match))
        position = match.end()
    if len(rules) > RULES_MAX:
        raise ValueError(f"at most {RULES_MAX} rules")
    return tuple(rules) or DEFAULT_RULES


def _rule(match: re.Match[str]) -> PrincipalRule:
    try:
        pattern = re.compile(match[2])
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{match[2]!r} is not a regular expression: {error}") from error
    for reference in _REFERENCE.finditer(match[3]):
        if reference[2] and int(reference[2]) > pattern.groups:
            raise ValueError(f"{match[3]!r} names group {reference[2]}, which {match[2]!r} does not have")
    return PrincipalRule(pattern, match[3], match[4])
