"""The group coordinator, without IO, clock or random numbers."""
