"""Record the settings of Kafka's brokers, with types, checks and defaults: mockbroker/base/kafka_settings.tsv.

    broker_settings.py --port 19092

It reads the ConfigDef of each release from its jars (fixtures/java/BrokerConfigs.java), and asks a broker of that
release with DescribeConfigs which settings can be changed dynamically. The responses are stored in
fixtures/broker_configs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import kafka

from kwire import ClientSide
from kwire.messages.describe_configs import DescribeConfigsRequest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = ROOT / "fixtures" / "java" / "BrokerConfigs.java"
ANSWERS = ROOT / "fixtures" / "broker_configs"
TABLE = ROOT / "mockbroker" / "base" / "kafka_settings.tsv"
RELEASES = {"3.9": "3.9.1", "4.2": "4.2.0"}
BROKER = 4
INTERVAL = re.compile(r"\[(-?[\d.]+),(?:\.\.\.)?,?(-?[\d.]+)?\]")
WORDS = re.compile(r"(\(case insensitive\) )?\[([^\]]+)\]")
HEAD = """\
# Settings of Kafka's brokers: name, releases, type, check, default, flags; written by tests/oracle/broker_settings.py
# check: LEAST..MOST, or WORD|WORD (~ before them: in any case); flags: d can be changed in a running broker, i internal
"""


def described(address: str) -> list[dict[str, object]]:
    """Return the settings in the DescribeConfigs response of a broker, sorted by name."""
    host, port = address.split(":")
    side = ClientSide("settings")
    resource = DescribeConfigsRequest.Resource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(side.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4))
        while (response := side.next_response()) is None:
            side.receive(sock.recv(65_536))
    answer: Any = response.body
    return [
        {
            name: getattr(config, name)
            for name in ("name", "value", "read_only", "config_source", "is_sensitive", "config_type")
        }
        | {"synonyms": [[one.name, one.value, one.source] for one in config.synonyms]}
        for config in sorted(answer.results[0].configs, key=lambda config: config.name)
    ]


def defined(jars: Path) -> list[list[str]]:
    """Return name, type, whether it is internal, validator and default of each setting."""
    command = ["java", "-cp", f"{jars}/*", str(PROGRAM)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def check(kind: str, text: str) -> str:
    """Return Kafka's description of a validator in the format of the table; empty if there is no format for it."""
    if kind in ("INT", "LONG", "SHORT", "DOUBLE"):
        if matched := INTERVAL.match(text):
            least = "-1" if text.endswith(" or -1") else matched[1]
            return f"{least}..{matched[2] or ''}"
        return ""
    if (matched := WORDS.match(text)) and "IV0" not in text:
        return ("~" if matched[1] else "") + matched[2].replace(", ", "|")
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=19092)
    port = parser.parse_args().port
    rows: dict[tuple[str, ...], list[str]] = {}
    for short, release in RELEASES.items():
        address = kafka.start(release, port)
        try:
            answer = described(address)
        finally:
            kafka.stop(port)
        dynamic = {config["name"] for config in answer if not config["read_only"]}
        text = ",\n".join(map(json.dumps, answer))
        kept = gzip.compress(f"[{text}]\n".encode(), mtime=0)
        (ANSWERS / f"{release}.json.gz").write_bytes(kept)
        for name, kind, internal, text, default in defined(kafka.fetch(release)):
            flags = "d" * (name in dynamic) + "i" * (internal == "true")
            rows.setdefault((name, kind, check(kind, text), default, flags), []).append(short)
    lines = ["\t".join([name, ",".join(releases), *rest]) for (name, *rest), releases in sorted(rows.items())]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
