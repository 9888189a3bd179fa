"""The conversion of packets to TCP segments, and of the segments of one direction to a byte stream."""
