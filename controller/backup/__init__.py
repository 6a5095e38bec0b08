"""A backup of all that controllers keep: ZooKeeper's tree and the SQL database, as one folder.

Records are not in it: they are the brokers' alone. docs/backup.md says what a restored backup is good for.
"""
