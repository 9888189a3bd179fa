"""``python -m mockbroker``."""

from mockbroker.cli import main

if __name__ == "__main__":
    main(prog_name="mockbroker")
