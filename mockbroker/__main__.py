"""The entry point of the command ``mockbroker`` and of ``python -m mockbroker``."""

from kwire.process import run


def main() -> None:
    """Run the command line. Raises: SystemExit with the exit code of the command."""
    run("mockbroker.cli")


if __name__ == "__main__":
    main()
