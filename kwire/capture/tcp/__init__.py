"""Conversion of packets to TCP segments, and of the segments of one direction to bytes in order."""
