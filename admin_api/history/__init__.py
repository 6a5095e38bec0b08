"""The audit, read: who changed what, when, why, and what it was before."""
