"""Engines turn a Layout into something that reads and writes bytes."""
