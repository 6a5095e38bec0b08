"""springtide/access_list.py: what a file's access control list gives to its group and to others."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from springtide.access_list import ATTRIBUTE, of_list
from springtide.secret_places import SecretExposed, check_secret_file
from tests.kit.secret_file import write_secret

OWNER, USER, GROUP_OBJECT, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
OURS, THEIRS = 10_001, 10_002
NO_ID = 0xFFFFFFFF
#: As systemd makes a credential for the user OURS.
CREDENTIAL = (
    (OWNER, 4, NO_ID),
    (USER, 4, OURS),
    (GROUP_OBJECT, 0, NO_ID),
    (MASK, 4, NO_ID),
    (OTHER, 0, NO_ID),
)


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.mark.parametrize(
    ("entries", "bits"),
    [
        (CREDENTIAL, 0o00),
        (((OWNER, 6, NO_ID), (GROUP_OBJECT, 4, NO_ID), (OTHER, 0, NO_ID)), 0o40),
        (((OWNER, 6, NO_ID), (GROUP_OBJECT, 6, NO_ID), (MASK, 4, NO_ID), (OTHER, 4, NO_ID)), 0o44),
        ((*CREDENTIAL, (USER, 6, THEIRS)), 0o04),
        ((*CREDENTIAL, (GROUP, 4, OURS)), 0o04),
    ],
)
def test_the_mask_is_not_taken_for_the_groups_rights(
    entries: tuple[tuple[int, int, int], ...], bits: int
) -> None:
    assert of_list(acl(*entries), users=(0, OURS)) == bits


@pytest.mark.parametrize("text", [b"", b"\x02\0\0", acl(*CREDENTIAL)[:-1], b"\x03" + acl(*CREDENTIAL)[1:]])
def test_a_list_that_can_not_be_read_counts_as_open_to_all(text: bytes) -> None:
    assert of_list(text, users=(OURS,)) == 0o77


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_credential_of_this_processs_user_is_accepted_and_one_of_another_user_is_not(
    tmp_path: Path,
) -> None:
    file = write_secret(tmp_path / "token", "s3cret")
    os.chown(file, -1, THEIRS)

    def give_to(user: int) -> None:
        ours = [(tag, rights, user if tag == USER else named) for tag, rights, named in CREDENTIAL]
        os.setxattr(file, ATTRIBUTE, acl(*ours))

    try:
        give_to(os.geteuid())
    except OSError:
        pytest.skip("this file system has no access control lists")
    assert file.stat().st_mode & 0o777 == 0o440
    check_secret_file(file)
    give_to(THEIRS)
    with pytest.raises(SecretExposed, match="every user of this host"):
        check_secret_file(file)
