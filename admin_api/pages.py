"""Paging of lists. A token is opaque to clients. It holds the position where the next page begins, never a
number of items to skip: items that are added or removed meanwhile neither hide nor repeat others. (In an
order by a value that changes, an item whose value changes meanwhile may appear twice or not at all.)"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Query

from admin_api.problem import FieldProblem, ProblemError
from admin_api.settings import ApiSettings

T = TypeVar("T")

_DEFAULTS = ApiSettings()

Limit = Annotated[int, Query(ge=1, le=_DEFAULTS.page_limit_max, description="items a page", examples=[100])]
PageToken = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=1_024,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="`next_page_token` of the page before",
    ),
]
LIMIT_DEFAULT = _DEFAULTS.page_limit_default


def encode_token(position: Sequence[str | int]) -> str:
    data = json.dumps(list(position), separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_token(token: str, *kinds: type[str] | type[int]) -> list[Any]:
    """Return the position that `encode_token` was given. A token that this API did not make is the client's
    error."""
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        position = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        refuse_token()
    if not isinstance(position, list) or [type(part) for part in position] != list(kinds):
        refuse_token()
    if any(isinstance(part, int) and not 0 <= part < 2**63 for part in position):
        refuse_token()
    return position


def refuse_token() -> NoReturn:
    problem = FieldProblem(parameter="page_token", message="not a token of this list")
    raise ProblemError("invalid_request", "page_token: not a token of this list", errors=(problem,))


def decode_position(token: str, name: str, *kinds: type[str] | type[int]) -> list[Any]:
    """Return the position of a token that begins with the name of its list and order; otherwise as
    `decode_token`."""
    found, *position = decode_token(token, str, *kinds)
    if found != name:
        refuse_token()
    return position


def page_of(
    items: Iterable[T],
    position: Callable[[T], tuple[str | int, ...]],
    *,
    name: str,
    kinds: tuple[type[str] | type[int], ...],
    limit: int,
    token: str | None,
    descending: bool = False,
) -> tuple[list[T], str | None]:
    """Return a page of items in the order of their positions, and the next page's token.

    position: of an item, distinct; its parts are of these kinds, and numbers are not negative. name: of the
    list and the order: a token of another one is refused.
    """
    ordered = sorted(items, key=position, reverse=descending)
    if token is not None:
        last = tuple(decode_position(token, name, *kinds))
        ordered = [
            item for item in ordered if (position(item) < last if descending else position(item) > last)
        ]
    return cut_page(ordered, limit, lambda item: [name, *position(item)])


def cut_page(
    items: Sequence[T], limit: int, position: Callable[[T], Sequence[str | int]]
) -> tuple[list[T], str | None]:
    """Return a page and the next page's token, made of the position of the page's last item. items: read from
    the page's beginning on, at least one more than `limit` if there are as many."""
    page = list(items[:limit])
    return page, encode_token(position(page[-1])) if len(items) > limit else None
