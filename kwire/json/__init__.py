"""Conversion of messages to JSON: objects, text, and expanded objects with topic names and decoded nested messages."""
