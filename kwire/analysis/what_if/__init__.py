"""The replay of a group's history with another assignor, and its comparison with the captured history
(``--what-if``).
"""
