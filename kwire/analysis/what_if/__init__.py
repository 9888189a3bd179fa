"""Replay of the history of a group with an assignor that the user selects (``--what-if``).

The replayed assignments are compared with the captured assignments.
"""
