"""The parts of the live page: its first HTML, its built files, and the document with which all open pages are
updated.
"""
