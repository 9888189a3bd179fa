"""Authorization of requests on clusters with an authorizer, after authentication and before the handlers.

This package does no I/O.
"""
