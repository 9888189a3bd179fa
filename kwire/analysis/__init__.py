"""The analysis of captured calls: tables that show the actions of consumer groups and the cost of their rebalances.

All functions are pure. Both the single-process run and Spark use them. They do not depend on packets, files or Spark.
"""
