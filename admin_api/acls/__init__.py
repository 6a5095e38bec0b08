"""ACLs: who may do what to which resources, and why a client may not."""
