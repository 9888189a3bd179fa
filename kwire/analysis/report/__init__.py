"""Reports for people: groups as text, and as one HTML page."""
