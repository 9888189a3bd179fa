"""Messages as JSON: objects, text, and objects with more in them."""
