"""The member of a classic group. A module contains one request, such as Heartbeat, or one part of a rebalance, such as
JoinGroup.
"""
