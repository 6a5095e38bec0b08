"""What the controller and the brokers say to each other.

Values only: both planes import it, it imports neither.
"""
