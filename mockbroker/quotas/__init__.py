"""Client quotas and connection limits, and the measurement of their use. This package does no I/O."""
