"""How far replication is, over a whole cluster: what needs a look first, and what each broker carries."""
