"""The history of a group id, derived from its events.

It consists of lives, generations or epochs, rebalances, members and sessions. A new life begins after the group was
deleted, expired or lost its state.
"""
