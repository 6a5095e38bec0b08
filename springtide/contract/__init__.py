"""The messages between the controller and the brokers. Pure.

Values only: both planes import it, it imports neither.
"""
