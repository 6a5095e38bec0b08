"""Webhooks over REST, which are told alarms, and silences of alarms."""
