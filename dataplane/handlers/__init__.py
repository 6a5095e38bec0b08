"""The handlers of a broker: one module an API, each a function from a request to an answer or to a wait."""
