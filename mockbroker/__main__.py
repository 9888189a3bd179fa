"""The command ``mockbroker``, and ``python -m mockbroker``."""

from kwire.process import run


def main() -> None:
    """Raises: SystemExit."""
    run("mockbroker.cli")


if __name__ == "__main__":
    main()
