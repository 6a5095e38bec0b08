"""The tokens that are accepted, as an operator sets it. `tokens` verifies by it.

Pure. Sources: RFC 7518; RFC 8725 (best current practices); KIP-768.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The tokens that are accepted. Raises ValueError for an algorithm that is not one of ALGORITHMS.

    audiences: the token has to name one of them. clock_skew_s: the difference allowed between the issuer's
    clock and ours. principal_claim: the claim that holds the principal's name. scopes: the token needs them
    all; scope_claim holds them, as a text with spaces or as a list."""

    issuer: str
    audiences: tuple[str, ...]
    algorithms: frozenset[str] = ALGORITHMS
    clock_skew_s: int = 30
    principal_claim: str = "sub"
    scopes: frozenset[str] = frozenset()
    scope_claim: str = "scope"

    def __post_init__(self) -> None:
        if not self.algorithms or not self.algorithms <= ALGORITHMS:
            raise ValueError(f"algorithms must be some of {', '.join(sorted(ALGORITHMS))}")
        if not self.issuer or not self.audiences:
            raise ValueError("an issuer and an audience must be given")
