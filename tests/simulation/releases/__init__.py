"""Two releases in one simulated cluster: the last one, its drivers of tier A included, beside this one."""
