"""Where secrets may be: in files that other users can't read, in the environment, and in no command line.

Every user of a host can read the arguments of its processes. A file is accepted that its owner alone can
read, and one that its group can read, too, if this process belongs to that group: so a service's user reads
what root has written for it, and a Kubernetes secret (root's, of the pod's fsGroup, mode 0440) is read as it
is mounted. The group may not write, and others may do nothing. So is a credential that systemd has given to
this process's user alone.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from springtide.access_list import group_and_others

#: What neither the group nor others may have, and what a group that the process belongs to may not have.
_SHARED = stat.S_IRWXG | stat.S_IRWXO
_SHARED_BEYOND_READING = stat.S_IWGRP | stat.S_IRWXO


class SecretExposed(Exception):
    """Other users can read or change the file. The message names it and the command that mends it."""


def check_secret_file(file: str | Path) -> None:
    """Raise SecretExposed if other users can get at the file. One that is not there, or no file on a disk (a
    pipe, a terminal), is left to the reader."""
    try:
        found = Path(file).stat()
    except OSError:
        return
    is_ours = found.st_gid in {os.getegid(), *os.getgroups()}
    shared = group_and_others(file, found.st_mode, users=(0, os.geteuid()))
    exposed = shared & (_SHARED_BEYOND_READING if is_ours else _SHARED)
    if not stat.S_ISREG(found.st_mode) or not exposed:
        return
    mode = "640" if is_ours and found.st_uid != os.geteuid() else "600"
    who = "every user of this host" if exposed & stat.S_IRWXO else "its group"
    raise SecretExposed(
        f"{file} holds a secret, and {who} can get at it (mode {stat.S_IMODE(found.st_mode):04o}): "
        f"chmod {mode} {file}"
    )


def has_password(url: str) -> bool:
    """Return whether a database's URL has a password in it, as SQLAlchemy and libpq read it."""
    try:
        parts = urlsplit(url)
        return bool(parts.password) or any("password" in name.lower() for name in parse_qs(parts.query))
    except ValueError:
        return False
