"""The checker of invariant I34: a group that commits in transactions processes each record once, and only records that
were committed.
"""

from __future__ import annotations

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.clients.processor import SOURCE


def find_repeated_processing(log: FinalLog) -> str:
    """Return a description of an input record that a group processed twice, or that was processed although a
    read_committed reader cannot see it.

    The result is "" if there is no such record.

    ``log``: the records at the end of the run.
    """
    results: dict[bytes, bytes] = {}
    for records in log.committed.values():
        for value in records.values():
            parts = value.split(SOURCE)
            if len(parts) == 1:
                continue
            source = parts[1]
            if results.setdefault(source, value) != value:
                return f"{source.decode()} was processed twice: {results[source].decode()} and {value.decode()}"
            name, _, offset = source.decode().partition(":")[2].rpartition("@")
            topic, _, index = name.rpartition("-")
            if log.is_deleted((topic, int(index)), int(offset)):
                continue
            if int(offset) not in log.committed.get((topic, int(index)), {}):
                return f"{value.decode()} was made from offset {offset} of {name}, which is not committed"
    return ""
