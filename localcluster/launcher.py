"""Runs between fork and exec of every child: ties the child's life to its parent's, then becomes the child.

`python -I -S launcher.py PARENT_PID COMMAND...`

Even a parent that is SIGKILLed must leave nothing behind, so it cannot be the parent's cleanup that ends
the children: the kernel does it (PR_SET_PDEATHSIG). This is a program of its own instead of a `preexec_fn`,
because Python code between fork and exec deadlocks now and then in a parent with threads, and it is started
without `site` because the few milliseconds are paid for every process.

The kernel sends the signal when the *thread* that forked ends, see prctl(2); processes.py forks from one
thread that lives as long as its process. The setting survives exec, so a JVM inherits it, but not fork: a
child that starts children of its own has to take care of them.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_PARENT_GONE = 125
EXIT_CANNOT_EXECUTE = 127


def main(arguments: list[str]) -> None:
    parent_pid, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
        if os.getppid() != parent_pid:  # The parent died before prctl took effect.
            sys.exit(EXIT_PARENT_GONE)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the arguments are localcluster's own, there is no shell
    except OSError as error:
        sys.stderr.write(f"cannot execute {command[0]}: {error.strerror}\n")
        sys.exit(EXIT_CANNOT_EXECUTE)


if __name__ == "__main__":
    main(sys.argv[1:])
