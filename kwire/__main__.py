"""The command ``kwire``, and ``python -m kwire``."""

from kwire.process import run


def main() -> None:
    """Raises: SystemExit."""
    run("kwire.cli")


if __name__ == "__main__":
    main()
