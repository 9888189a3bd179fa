"""Packets to TCP segments, and the segments of one direction to bytes in order."""
