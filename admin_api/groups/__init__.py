"""Client groups: who reads what, how far, and where they go on."""
