"""Readable reports about groups: as text, and as one HTML page."""
