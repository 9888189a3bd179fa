"""Share partitions: the records that members of share groups have acquired, the share sessions, and the share
coordinator.
"""
