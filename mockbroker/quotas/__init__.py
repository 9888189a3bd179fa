"""Client quotas: limits for users, client ids and addresses, and measurement of their use. This package does no I/O."""
