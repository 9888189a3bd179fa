"""The Python API of a cluster."""
