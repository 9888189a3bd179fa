"""Authorization of requests on clusters with an authorizer, in a stage between authentication and the handlers.

This package does no I/O.
"""
