"""Client quotas: limits for users, client ids and addresses, and measurement of their use. Sans-IO."""
