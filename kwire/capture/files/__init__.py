"""Capture files: where they are, what kinds there are, and their records in blocks, damaged or not."""
