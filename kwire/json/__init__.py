"""Messages as JSON: as objects, as text, and as objects that also contain topic names and decoded nested messages."""
