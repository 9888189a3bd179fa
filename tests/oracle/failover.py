"""Play the stories of failover_scripts.py against a real broker that is killed and restarted, and record them in
fixtures/failover.

failover.py [--release 4.2.0] [--port 19092]
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import kafka
from failover_scripts import NEW, TOPIC, Peer, Teller, tell_all

from kwire.messages.create_topics import CreateTopicsRequest

FOLDER = Path(__file__).parent.parent.parent / "fixtures" / "failover"
SETTINGS = {"group.consumer.session.timeout.ms": "45000"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=NEW)
    parser.add_argument("--port", type=int, default=19092)
    arguments = parser.parse_args()
    with kafka.running(arguments.release, arguments.port, SETTINGS) as address:
        host, _, port = address.partition(":")
        at = host, int(port)
        peer = Peer(Teller("topic", at), "topic")
        topic = CreateTopicsRequest.Topic(name=TOPIC, num_partitions=3, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        peer.close()
        recording = tell_all(at, arguments.release, partial(kafka.kill_and_start, arguments.release, arguments.port))
    path = FOLDER / f"{arguments.release}.json"
    path.write_text(json.dumps(recording, indent=1) + "\n", "utf-8")
    sys.stdout.write(f"{path}: {len(recording)} stories\n")


if __name__ == "__main__":
    main()
