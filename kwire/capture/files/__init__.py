"""Capture files: the search for files, the file formats, and the reading of records in blocks, also from damaged
files.
"""
