"""The scenarios of docs/replication.md section 7, played by hand on the simulated cluster."""
