"""The history of a group id, derived from its events.

The history of a group id consists of lives. A life ends when the group is deleted, expires or loses its state; a later
group with the same id is the next life. A life consists of generations or epochs, rebalances, members and sessions.
"""
