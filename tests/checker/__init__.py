"""The history checker that every tier of tests shares: what clients saw goes in, a verdict comes out."""
