"""Hostile brokers for testing clients: each misbehaves at one step of the session."""
