"""``kwire pipeline`` for spark-submit, which wants a file; also ``python -m kwire.spark``."""

from kwire.cli.pipeline import command

if __name__ == "__main__":
    command()
