"""The command ``kwire pipeline`` as a script.

``spark-submit`` needs a script file; ``python -m kwire.spark`` runs the same code.
"""

from kwire.spark.command import command

if __name__ == "__main__":
    command()
