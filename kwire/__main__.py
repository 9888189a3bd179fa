"""``python -m kwire``."""

from kwire.cli import main

if __name__ == "__main__":
    main(prog_name="kwire")
