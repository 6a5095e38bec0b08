"""Policies over REST: guardrails that operators write as SQL, and what they say about plans."""
