"""Decoding of a connection's bytes into frames, and of frames into calls: requests with their responses."""
