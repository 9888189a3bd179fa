"""Records the traffic of real clients with mockbroker, a capture for each client, for benchmarks/capture.py.

    python benchmarks/clients.py FOLDER [CLIENT...]

Each client creates a topic, produces 6,000 records, reads 500, and asks for offsets; two members read all in a group,
one leaves and another joins. The captures are some 2 MB each and are not committed. It needs the clients that
`make interop` needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from interop.adapters import ADAPTERS
from interop.stage import Stage
from interop.test_history import play

CLIENTS = ("java", "franz-go", "kafkajs", "confluent-kafka", "kafka-python", "aiokafka")
ROUNDS, VALUES = 10, [f"value {number} " * 5 for number in range(100)]


def story(client: str, stage: Stage) -> None:
    """Run the client's part of a capture."""
    adapter = ADAPTERS[client](stage.cluster.bootstrap_servers)
    adapter.create_topic("made", 3)
    for _ in range(ROUNDS):
        adapter.produce(stage.topic, dict.fromkeys(range(stage.partitions), VALUES))
    adapter.read(stage.topic, 0, 0, 500)
    adapter.ends(stage.topic, 0)
    first, second = stage.joined(client, "first"), stage.joined(client, "second")
    stage.wait("all records", lambda: len(first.values) + len(second.values) >= ROUNDS * stage.partitions * len(VALUES))
    stage.wait_stable({"first", "second"})
    stage.wait_held(first, second)
    first.commit()
    second.leave()
    stage.joined(client, "third").leave()
    first.leave()


def main(folder: Path, clients: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for client in clients:
        file = folder / f"{client}.pcap"
        play(file, lambda stage, client=client: story(client, stage))  # type: ignore[misc]
        sys.stdout.write(f"{file}: {file.stat().st_size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(CLIENTS))
