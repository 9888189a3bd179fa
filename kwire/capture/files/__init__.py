"""Capture files: finding them, their formats, and their records in blocks, also of damaged files."""
