"""Fuzzing: values that reach the edges of every message, frames broken on purpose, and brokers that are sent them.

``strategies`` gives Hypothesis strategies and is the only file here that needs Hypothesis (extra ``kwire[fuzz]``);
``values`` and ``mutate`` do the same from a ``random.Random`` and need nothing. docs/fuzzing.md shows how to use them.
"""
