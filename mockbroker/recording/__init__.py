"""Recordings of live traffic, in files that ``kwire capture`` reads."""
