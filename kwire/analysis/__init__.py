"""The analysis of captured calls: tables that show the actions of consumer groups and the cost of their rebalances.

All functions are pure. They are used by the single-process run and by Spark, and do not depend on packets, files or
Spark.
"""
