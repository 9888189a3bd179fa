"""Fetch sessions, and fetches that wait for records."""
