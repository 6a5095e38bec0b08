"""The seams of the code as figures: `make house`, with BASE=REVISION beside those of an earlier one."""
