"""Policies over REST: checks that operators write as SQL, and their verdicts on plans."""
