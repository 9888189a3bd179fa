"""The entry point of the command ``kwire`` and of ``python -m kwire``."""

from kwire.process import run


def main() -> None:
    """Run the ``kwire`` command. Raises: SystemExit with the exit code of the command."""
    run("kwire.cli")


if __name__ == "__main__":
    main()
