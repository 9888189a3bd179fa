"""Tables for people: group by group as text, and as one HTML page."""
