"""`controller secure-zookeeper`: gives the root and every znode below it one ACL.

The root comes first: controllers give what they create the ACL that the root had when they last stood for
election. Setting an ACL changes no version, so that no write of an active controller fails by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL

#: Znodes that are asked for at a time.
BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class AclsSet:
    """changed, unchanged: how many znodes. refused: paths whose ACL does not let us."""

    changed: int
    unchanged: int
    refused: tuple[str, ...]


def set_acls(client: KazooClient, root: str, acl: Sequence[ACL]) -> AclsSet:
    """Set the ACL of each znode that has another. Raise NoNodeError if there is no root, and kazoo's errors
    if the connection is lost: run again."""
    client.sync(root)
    client.get_children(root)
    changed, unchanged, refused = 0, 0, []
    waiting = [root]
    while waiting:
        batch, waiting = waiting[-BATCH:], waiting[:-BATCH]
        asked = [(path, client.get_acls_async(path), client.get_children_async(path)) for path in batch]
        setting = []
        for path, acls, children in asked:
            try:
                if set(acls.get()[0]) == set(acl):
                    unchanged += 1
                else:
                    setting.append((path, client.set_acls_async(path, list(acl))))
                waiting += [f"{path}/{name}" for name in children.get()]
            except NoNodeError:
                continue  # deleted meanwhile
            except NoAuthError:
                refused.append(path)
        for path, done in setting:
            try:
                done.get()
                changed += 1
            except NoNodeError:
                continue
            except NoAuthError:
                refused.append(path)
    return AclsSet(changed, unchanged, tuple(refused))
