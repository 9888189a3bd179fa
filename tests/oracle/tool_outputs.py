"""Record the output of Kafka's tools for configurations and features: ``tool_outputs.py [--release] [--port]``.

The commands are the lines of fixtures/tools/<release>.txt that begin with ``##``; the output of the tools is written
below each of these lines. To record a new command, add its line there first.
"""

from __future__ import annotations

import argparse

import kafka
from tool_blocks import OUTPUTS, commands, outputs, printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default=kafka.NEWEST)
    parser.add_argument("--port", type=int, default=19092)
    given = parser.parse_args()
    with kafka.running(given.release, given.port, {}) as address:
        text = printed(["java", "-cp", f"{kafka.fetch(given.release)}/*"], address, commands(given.release))
    blocks = (f"## {command}\n" + "".join(f"{line}\n" for line in lines) for command, lines in outputs(text))
    (OUTPUTS / f"{given.release}.txt").write_text("".join(blocks), "utf-8")


if __name__ == "__main__":
    main()
