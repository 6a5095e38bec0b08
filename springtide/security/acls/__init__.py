"""Access control lists as Kafka has them: bindings, the decision about a request, filters. Pure.

A binding (`model`) allows or denies a principal an operation on a resource. A table of all bindings (`table`)
decides, and a connection remembers decisions (`cache`). Sources: KIP-11, KIP-290 (prefixes), KIP-679
(idempotent writes), KIP-939 (two-phase commit), and the StandardAuthorizer of Apache Kafka 4.3.
"""
