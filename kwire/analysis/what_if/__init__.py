"""Replay of a group's history with another assignor, and the comparison with it (``kwire groups --what-if``)."""
