"""The analysis of captured calls: tables that show the actions of consumer groups and the cost of their rebalances.

Commands that run in one process and Spark tasks use the same functions. Most functions have no side effects and do no
I/O; ``parquet`` and ``report`` read and write files.
"""
