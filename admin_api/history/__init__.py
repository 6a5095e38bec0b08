"""Reading the audit: who changed what, when, why, and what it was before."""
