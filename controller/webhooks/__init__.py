"""Webhooks: alarms told to operators' URLs, and silences, which keep alarms from being told.

`core` decides what is told, in which order and when it is tried again; `notifier` runs that on the active
controller, `posting` sends.
"""
