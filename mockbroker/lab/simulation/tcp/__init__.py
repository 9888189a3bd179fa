"""Simulated TCP connections: requests and responses as bytes, which are cut anywhere, with TLS and SASL."""
