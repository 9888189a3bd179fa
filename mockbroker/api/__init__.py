"""The Python API: clusters, their clock, their records, and the conditions that a test can wait for."""
