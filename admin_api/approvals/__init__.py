"""A second person's approval of plans of protected clusters."""
