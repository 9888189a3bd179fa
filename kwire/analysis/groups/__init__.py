"""The history of a group: its events to lives, generations or epochs, rebalances, members and sessions."""
