"""Handling of Fetch requests: fetch sessions, and the purgatory of fetches that wait for records."""
