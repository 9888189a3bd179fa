"""The script of ``kwire pipeline`` for spark-submit, which needs a file; also ``python -m kwire.spark``."""

from kwire.spark.command import command

if __name__ == "__main__":
    command()
