"""HTTP, in one place for all nouns: tokens, the gate, problems, strict bodies and routes, paging, conditions,
writes that happen once."""
