"""The script that ``spark-submit`` runs. ``python -m kwire.spark`` runs the same code as ``kwire pipeline``."""

from kwire.spark.command import command

if __name__ == "__main__":
    command()
