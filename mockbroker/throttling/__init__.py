"""Throttling of clients that exceed their quotas, after authentication and before the handlers. No I/O."""
