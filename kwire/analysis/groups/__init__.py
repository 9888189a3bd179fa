"""The history of a group, derived from its events: lives, generations or epochs, rebalances, members and sessions."""
