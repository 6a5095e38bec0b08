"""Where each scenario of docs/replication.md section 7 is tested.

`sim` rows are played here, on the simulated cluster. The others need what a simulation does not have (a real
process, disk, SQL). Rows that name their own tests need no line here.
"""

from __future__ import annotations

#: Scenario number to where: "sim", or "<path>::<test>" of a test elsewhere.
WHERE: dict[str, str] = {
    **{
        f"S{number}": "sim"
        for number in (
            *range(1, 29),
            *(30, 31, 32, 34, 35, 36, 38, 39, 52),
            *(53, 54, 55),
            *range(56, 68),
            *(76, 77, 82, 83, 84, 86, 87, 90, 91, 92),
        )
    },
    "S29": "tests/integration/dataplane/test_disk_trouble.py::test_s28_a_slow_fsync_",
    "S33": "tests/unit/dataplane/core/test_replica_transitions.py::test_i25_s33_",
    "S37": "tests/unit/controller/core/test_sessions.py::test_the_second_process_",
    "S40": "tests/integration/sql/test_history.py::test_",
}
