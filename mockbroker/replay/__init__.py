"""Replay of recordings: a broker that sends the responses that the recorded broker has sent."""
