"""What a broker may do while an operator's request for it is carried out: the request was written down and is
allowed, so that the broker's own question about it is answered without a second row in the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class DeedPermits:
    """The permits of one controller that are open now. A permit is any value that names exactly one deed."""

    def __init__(self) -> None:
        self._open: Counter[Hashable] = Counter()

    @contextmanager
    def opened(self, permit: Hashable) -> Iterator[None]:
        """Permit the deed until the block ends. Requests for the same deed do not end each other's."""
        self._open[permit] += 1
        try:
            yield
        finally:
            self._open[permit] -= 1
            if not self._open[permit]:
                del self._open[permit]

    def __contains__(self, permit: Hashable) -> bool:
        return permit in self._open
