"""The history of a group: events to lives, generations or epochs, rebalances, members and their sessions."""
