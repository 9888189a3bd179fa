"""Simulated TCP connections with TLS and SASL. Requests and responses are bytes, which arrive in segments of any
size.
"""
