"""Record what Kafka's tools print for configurations and features: ``tool_outputs.py [--release] [--port]``.

The command lines are those of fixtures/tools/<release>.txt, in which each begins with ``##``; what the tools print is
written below each line. A new line is added there, and then recorded.
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
