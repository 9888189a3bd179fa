"""Throttling of clients that exceed their quotas, as a stage before and after the handlers. No I/O."""
