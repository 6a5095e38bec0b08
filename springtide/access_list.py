"""What an access control list of a file (acl(5)) lets the file's group and others do.

With a list, the group's bits of the mode are the list's mask and say nothing of the group. systemd gives a
credential to a service's user so: root's file, mode 0440, with an entry for that user (systemd.exec(5),
`LoadCredential`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Final

ATTRIBUTE: Final = "system.posix_acl_access"
#: include/uapi/linux/posix_acl_xattr.h and posix_acl.h: a version, then tag, rights and id of each entry.
_VERSION: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HHI")
_SUPPORTED_VERSION: Final = 2
_USER, _GROUP_OBJECT, _GROUP, _MASK, _OTHER = 0x02, 0x04, 0x08, 0x10, 0x20
_GROUP_SHIFT: Final = 3
_ALL: Final = 0o7


def group_and_others(file: str | Path, mode: int, *, users: Collection[int]) -> int:
    """Return the bits of the mode for the group and for others, as they are in truth. What the list gives to
    users that are not in `users`, or to further groups, counts as given to others."""
    try:
        text = os.getxattr(file, ATTRIBUTE)
    except OSError:  # no list, or a file system without
        return mode & 0o77
    return of_list(text, users=users)


def of_list(text: bytes, *, users: Collection[int]) -> int:
    """Return these bits of a list as the kernel gives it. One that can't be read gives all to all."""
    if len(text) % _ENTRY.size != _VERSION.size or _VERSION.unpack_from(text)[0] != _SUPPORTED_VERSION:
        return 0o77
    entries = list(_ENTRY.iter_unpack(text[_VERSION.size :]))
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), _ALL)
    group = others = 0
    for tag, rights, named in entries:
        if tag == _GROUP_OBJECT:
            group |= rights & mask
        elif tag == _GROUP or (tag == _USER and named not in users):
            others |= rights & mask
        elif tag == _OTHER:
            others |= rights
    return group << _GROUP_SHIFT | others
