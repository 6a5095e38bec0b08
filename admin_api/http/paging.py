"""Paging of lists. A token is opaque to clients. It holds the position where the next page begins, never a
number of items to skip: items that are added or removed meanwhile neither hide nor repeat others. (In an
order by a value that changes, an item whose value changes meanwhile may appear twice or not at all.)"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Depends, Query

from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.settings import ApiSettings

T = TypeVar("T")

_DEFAULTS = ApiSettings()


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


@dataclass(frozen=True, slots=True)
class Paging:
    """The page of a list that a request asks for: at most `limit` items, from the token's position on."""

    limit: int
    token: str | None

    @property
    def rows(self) -> int:
        """Return how many rows to read: one more than the page holds shows whether there is a next page."""
        return self.limit + 1

    def after(self, name: str, *kinds: type[str] | type[int]) -> tuple[Any, ...] | None:
        """Return the position of the last item before the page, or None for the first page. name: of the list
        and the order; a token of another one is refused."""
        if self.token is None:
            return None
        found, *position = decode_token(self.token, str, *kinds)
        if found != name:
            refuse_token()
        return tuple(position)

    def page_of(
        self,
        items: Iterable[T],
        position: Callable[[T], tuple[str | int, ...]],
        *,
        name: str,
        kinds: tuple[type[str] | type[int], ...],
        descending: bool = False,
    ) -> tuple[list[T], str | None]:
        """Return the page of items in the order of their positions, and the next page's token.

        position: of an item, distinct; its parts are of these kinds, and numbers are not negative. name: as
        for `after`.
        """
        last = self.after(name, *kinds)
        placed = ((position(item), item) for item in items)
        if last is not None:
            placed = (one for one in placed if (one[0] < last if descending else one[0] > last))
        choose = heapq.nlargest if descending else heapq.nsmallest  # A sort of all would cost far more.
        found = choose(self.rows, placed, key=itemgetter(0))
        page, token = self.cut(found, lambda one: [name, *one[0]])
        return [item for _, item in page], token

    def cut(
        self, items: Sequence[T], position: Callable[[T], Sequence[str | int]]
    ) -> tuple[list[T], str | None]:
        """Return the page and the next page's token, made of the position of the page's last item. items: as
        many as `rows`, if there are, from the page's beginning on."""
        page = list(items[: self.limit])
        return page, encode_token(position(page[-1])) if len(items) > self.limit else None


async def paging_of(
    limit: Annotated[
        int, Query(ge=1, le=_DEFAULTS.page_limit_max, description="items a page", examples=[100])
    ] = _DEFAULTS.page_limit_default,
    page_token: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=1_024,
            pattern=r"^[A-Za-z0-9_-]+$",
            description="`next_page_token` of the page before",
        ),
    ] = None,
) -> Paging:
    return Paging(limit, page_token)


Paged = Annotated[Paging, Depends(paging_of)]
