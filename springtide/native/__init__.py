"""The native part: functions on bytes in C, and the choice between them and the same ones in Python.

A function here has its reference in `springtide.wire`, which says what is right; a simulation runs the
reference, a process takes what this package chooses. The walk (record_walk.py there) answers in every case,
a shortcut (shortcuts.py there) in usual ones, and leaves the others to the reference. The C holds no state,
calls nothing back and decides nothing. It is built where a compiler is; where none is, the reference runs.
"""
