"""What the data directory does in threads: copies before a cut, and files that must not go back."""

from __future__ import annotations

import pytest

from dataplane.core.effects import WriteAside
from dataplane.shell.data_directory import _why_aside


def aside(*, first_offset: int, cut_offset: int) -> WriteAside:
    return WriteAside(
        hold_id=1,
        first_offset=first_offset,
        next_offset=9,
        leader_epoch=5,
        high_watermark=6,
        cut_offset=cut_offset,
    )


@pytest.mark.parametrize(
    ("first_offset", "cut_offset", "why"),
    [
        (7, 7, "the leader's log has other records here"),
        (6, 6, "the leader's log has other records here"),
        (5, 5, "below the high watermark, after an unclean election"),
        (2, 0, "below the high watermark, after an unclean election"),
        (6, 20, "the leader has deleted these offsets; whether it had the same records here is not known"),
    ],
)
def test_a_copys_description_says_why_it_was_made(first_offset: int, cut_offset: int, why: str) -> None:
    assert _why_aside(aside(first_offset=first_offset, cut_offset=cut_offset)) == why
