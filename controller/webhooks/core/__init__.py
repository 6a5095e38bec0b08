"""What webhooks tell, and when. Pure."""
