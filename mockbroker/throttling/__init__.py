"""Throttling of clients that exceed their quotas: a stage between authentication and the handlers. This package does no
I/O.
"""
