"""The table of what was tried and what came of it: each tier leaves its figures, one page shows them all."""
