"""The conversion of a connection's bytes to frames, and of frames to calls. A call is a request with its response."""
