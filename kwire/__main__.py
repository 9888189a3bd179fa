"""The command ``kwire``, and ``python -m kwire``."""

from kwire.process import run


def main() -> None:
    """Run the ``kwire`` command. Raises: SystemExit."""
    run("kwire.cli")


if __name__ == "__main__":
    main()
