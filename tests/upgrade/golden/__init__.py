"""Files that a release wrote, by the level of their cluster, and what makes and reads them."""
