"""The SQL database: its tables, their rows, and the one thread that writes to it.

What the rows of the history mean, and how they are chained, is the audit's (`controller.audit`).
"""
