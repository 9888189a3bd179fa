"""Messages as JSON: as objects, as text, and as expanded objects with topic names and decoded nested messages."""
