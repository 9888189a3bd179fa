"""Play our conversations against the real broker with which they were recorded: ``check.py [--release] [FILE...]``.

A broker is started for each set of settings. Every conversation should pass; the exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import kafka
import trio

from mockbroker.lab.conform.conversation import load
from mockbroker.lab.conform.runner import Outcome, run

CONVERSATIONS = Path(__file__).parent.parent.parent / "fixtures" / "conversations"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=kafka.NEWEST)
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    by_settings: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    for file in arguments.files or sorted((CONVERSATIONS / arguments.release).glob("*.json.gz")):
        conversation = load(file)
        settings = {name: _text(value) for name, value in conversation.config.items()}
        settings = kafka.with_users(arguments.port, conversation.users) | settings
        by_settings.setdefault(tuple(sorted(settings.items())), []).append(file)
    counted: Counter[str] = Counter()

    def tell(outcome: Outcome) -> None:
        counted[outcome.verdict] += 1
        print(f"{outcome.verdict:<8} {outcome.name} {outcome.detail}", flush=True)

    for given, files in by_settings.items():
        settings = dict(given)
        with kafka.running(arguments.release, arguments.port, settings) as address:
            host, _, port = address.rpartition(":")
            sasl_port = kafka.sasl_port(int(port)) if "SASL_PLAINTEXT" in settings.get("listeners", "") else None
            trio.run(partial(run, files, (host, int(port)), tell, at_once=1, sasl_port=sasl_port))
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counted.items())), file=sys.stderr)
    sys.exit(1 if counted["differs"] or counted["failed"] else 0)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
