"""What shows that two releases can run beside each other, and that an upgrade can be taken back."""
