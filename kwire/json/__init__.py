"""JSON forms of messages: objects, text, and expanded objects with topic names and decoded nested messages."""
