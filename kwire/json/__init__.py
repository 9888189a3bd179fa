"""Messages as JSON: as objects, as text, and as objects with topic names and nested messages decoded."""
