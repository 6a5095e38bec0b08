"""Runs between fork and exec of a process on a simulated host: moves into the host, then becomes the process.

`python -I -S enter_host.py NETWORK BOOT_ID_FILE CGROUP_PROCS COMMAND...`

The process gets the host's network, and a mount namespace of its own in which the kernel's boot id is the
simulated machine's: whether a machine crashed is told by it. `CGROUP_PROCS` limits the host's disk; "-"
leaves it out. A program of its own for the reason launcher.py gives; the parent's death still ends what it
becomes.
"""

import ctypes
import os
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_REC = 0x4000
MS_SLAVE = 1 << 19
BOOT_ID = b"/proc/sys/kernel/random/boot_id"


def main(arguments: list[str]) -> None:
    network, boot_id_file, cgroup_procs, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if cgroup_procs != "-":
        procs = os.open(cgroup_procs, os.O_WRONLY)
        os.write(procs, str(os.getpid()).encode("ascii"))
        os.close(procs)
    descriptor = os.open(network, os.O_RDONLY)
    _require(libc.setns(descriptor, CLONE_NEWNET), "setns")
    os.close(descriptor)
    _require(libc.unshare(CLONE_NEWNS), "unshare")
    # A slave: what the supervisor unmounts goes here too, what is mounted here stays here.
    _require(libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "mount slave")
    _require(libc.mount(os.fsencode(boot_id_file), BOOT_ID, None, MS_BIND, None), "mount boot id")
    os.execvp(command[0], command)


def _require(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(sys.argv[1:])
