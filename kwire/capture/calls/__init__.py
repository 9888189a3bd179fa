"""Bytes of a connection to frames, and frames to calls: requests, each with its response."""
