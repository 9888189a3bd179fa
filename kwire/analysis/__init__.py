"""The analysis of captured calls: tables of the actions of consumer groups and of their cost.

All functions are pure. Both the single-process run and Spark use them. They do not depend on packets, files or Spark.
"""
