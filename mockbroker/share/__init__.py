"""Share partitions, share sessions and the share coordinator.

A share partition contains the records that members of a share group have acquired.
"""
