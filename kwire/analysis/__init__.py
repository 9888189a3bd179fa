"""The analysis of captured calls: tables of what groups did and what it cost.

Pure functions, used by the single-process run and by Spark. They do not depend on packets, files or Spark.
"""
