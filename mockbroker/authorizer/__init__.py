"""Authorization of requests, for clusters with an authorizer: a stage between authentication and the handlers.

This package does no I/O.
"""
