"""The transaction coordinator: the state of each transactional id, its transitions, and the transaction log."""
