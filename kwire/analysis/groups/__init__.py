"""The history of a group id, derived from its events.

It consists of lives (a new one begins after deletion, expiry, or loss of the group's state), generations or epochs,
rebalances, members and sessions.
"""
