"""Client quotas: the limits of users, client ids and addresses, and the use of these quotas by clients. Sans-IO."""
