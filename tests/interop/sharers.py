"""Members of share groups: clients that acknowledge records by their values."""

from __future__ import annotations

import json

from interop.stage import Member, Process, Stage, need_client, start_client

SHARERS = ("java", "franz-go", "confluent-kafka")
GROUP = "packers"


class Sharer(Member):
    """A member of a share group. ``taken``: value and delivery count of each record that it has acknowledged."""

    def __init__(self, stage: Stage, name: str, process: Process) -> None:
        self.taken: list[tuple[str, int]] = []
        super().__init__(stage, name, process)

    def heard(self, line: str) -> None:
        reported = json.loads(line)
        if reported["event"] == "records":
            self.taken += [(value, deliveries) for value, deliveries in reported["records"]]


def sharer(stage: Stage, family: str, name: str, *, acknowledgement: str = "explicit") -> Sharer:
    """Start a member that reads ``stage.topic``. ``acknowledgement``: implicit or explicit."""
    need_client(family)
    requested = {
        "bootstrap": stage.cluster.bootstrap_servers,
        "client_id": name,
        "group": GROUP,
        "topic": stage.topic,
        "acknowledgement": acknowledgement,
    }
    made = Sharer(stage, name, start_client(family, "share", requested))
    stage.members.append(made)
    return made
