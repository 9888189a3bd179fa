"""Calls into tables: what groups did, and what it cost.

Pure functions, used by both runners. They know nothing of packets, files or Spark.
"""
