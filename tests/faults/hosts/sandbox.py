"""Namespaces of this process's own, so that nothing we break or forget is the machine's.

`enter_sandbox` moves this process into a new mount namespace and a new network namespace. What it mounts,
which interfaces and named network namespaces it makes, nobody outside sees; and the kernel takes all of it
back when the last process inside ends, however it ends. So there is no state that a crashed run could leave
behind, no name that two runs could fight about, and no clean-up that must find what an earlier run made.

Call it first thing in `main`: only the calling thread moves, and threads that it starts later.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20

TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "mount": "mount",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
}
"""Command, and the Debian package that has it."""
FAKETIME_PACKAGE = "libfaketime"
FAKETIME_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"
PROBE_SECONDS_MAX = 20.0

NETNS_FOLDER = Path("/run/netns")
"""Where `ip netns` keeps its names; in the sandbox a tmpfs of our own lies over the machine's."""

_is_inside = False


class SandboxUnavailable(RuntimeError):
    """This machine can't run simulated hosts; the message says what is missing."""


def clock_environment(library: Path, clock_file: Path) -> dict[str, str]:
    """Return what a process needs whose wall clock is off by what the file says. Elapsed time is let be, also
    by the library's mend for C libraries of old: with it each thread of Python that waits for the
    interpreter's lock spins, and a broker needs six times its CPU."""
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock_file),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "FAKETIME_CACHE_DURATION": "1",
    }


def find_faketime() -> Path | None:
    """The library that fakes the wall clock of a process with threads; None when it is not installed."""
    root = Path(FAKETIME_LIBRARIES).anchor
    return next(iter(sorted(Path(root).glob(FAKETIME_LIBRARIES.removeprefix(root)))), None)


def why_no_sandbox() -> str:
    """What keeps this machine from running simulated hosts, in a sentence; empty when nothing does.

    Rights and kernel features are tried and not looked up: inside a container they seldom are what the
    uid says.
    """
    if sys.platform != "linux":
        return "simulated hosts need Linux namespaces"
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if find_faketime() is None:
        missing.add(FAKETIME_PACKAGE)
    if missing:
        return f"not installed: {', '.join(sorted(missing))}"
    if os.geteuid() != 0:
        return "simulated hosts need root: namespaces, mounts and loop devices"
    probe = "import tests.faults.hosts.sandbox as sandbox; sandbox.probe()"
    tried = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if tried.returncode != 0:
        last = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"the kernel does not allow it: {last}"
    return ""


def probe() -> None:
    """Enters a sandbox and tries one of each: a namespace, a bridge, a veth, a rule and a loop mount."""
    enter_sandbox()
    run("ip", "netns", "add", "probe")
    run("ip", "link", "add", "probe-bridge", "type", "bridge")
    run("ip", "link", "add", "probe-a", "type", "veth", "peer", "name", "probe-b", "netns", "probe")
    run("ip", "netns", "exec", "probe", "nft", "add table inet probe")
    folder = NETNS_FOLDER / "probe-disk"  # On the sandbox's own tmpfs: it goes with it.
    folder.mkdir()
    image = NETNS_FOLDER / "probe.img"
    with image.open("wb") as file:
        file.truncate(8 * 1024 * 1024)
    run("mkfs.ext4", "-q", "-F", str(image))
    run("mount", "-o", "loop", str(image), str(folder))
    run("umount", str(folder))


def enter_or_say_why_not() -> bool:
    """Enter the sandbox, for a command; False, with a line on standard error, where there can be none."""
    reason = why_no_sandbox()
    if not reason:
        try:
            enter_sandbox()
        except SandboxUnavailable as error:
            reason = str(error)
    if reason:
        print(f"no simulated hosts here: {reason}", file=sys.stderr)
    return not reason


def enter_sandbox() -> None:
    """Moves this process into namespaces of its own; nothing when it is there already.

    Raises:
        SandboxUnavailable: other threads run, which would stay outside, or the kernel refuses.
    """
    global _is_inside  # noqa: PLW0603 - it is a fact about the process
    if _is_inside:
        return
    if threading.active_count() > 1:
        raise SandboxUnavailable("enter the sandbox before starting threads: they would stay outside")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise SandboxUnavailable(f"unshare: {os.strerror(ctypes.get_errno())}")
    # Private: nothing gets out. Then shared anew: what we unmount goes from our hosts' namespaces too.
    for propagation in (MS_PRIVATE, MS_SHARED):
        if libc.mount(b"none", b"/", None, MS_REC | propagation, None) != 0:
            raise SandboxUnavailable(f"making mounts private: {os.strerror(ctypes.get_errno())}")
    NETNS_FOLDER.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=32m", "none", str(NETNS_FOLDER))
    run("ip", "link", "set", "lo", "up")
    _is_inside = True


def require_sandbox() -> None:
    """Raises SandboxUnavailable unless `enter_sandbox` was called: what comes next must not touch the
    machine."""
    if not _is_inside:
        raise SandboxUnavailable("call enter_sandbox() first: hosts are only built in namespaces of our own")


def run(*command: str, stdin: str | None = None) -> str:
    """Runs a command to its end and returns what it printed.

    Raises:
        SandboxUnavailable: it failed; with its words.
    """
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=PROBE_SECONDS_MAX, check=False
    )
    if done.returncode != 0:
        raise SandboxUnavailable(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
