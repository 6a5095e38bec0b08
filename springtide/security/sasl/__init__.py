"""Authentication by SASL as Kafka frames it: messages in, messages out, and who the client is. Pure.

`exchange` says what all mechanisms share. `plain`, `scram` and `oauthbearer` are the servers' sides,
`clients` the sides of our own planes; `credentials` derives what is stored of a password, `tokens` verifies
a JWT, and `session` decides what a connection may ask before, during and after authentication.

Sources: RFC 4422 (SASL); KIP-43, KIP-152 (SaslHandshake, SaslAuthenticate), KIP-368 (re-authentication).
"""
