"""Quotas: how much a user, a client or an address may take."""
