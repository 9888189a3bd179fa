"""Replay of recordings: a broker that sends recorded responses."""
