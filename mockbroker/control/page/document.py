"""The document with all data that the live page shows. It is refreshed in slices (parts of limited size).

The document has no null values, because a merge patch deletes a key whose value is null. An absent key means null.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeAlias

from mockbroker.api.plan import MANUAL
from mockbroker.api.snapshots import transactions
from mockbroker.control.control import Control
from mockbroker.control.merge_patch import difference, without_null
from mockbroker.control.page.collection import Collection, Slices
from mockbroker.control.page.connections import Connections
from mockbroker.control.page.groups import Groups
from mockbroker.control.page.shares import Shares
from mockbroker.control.page.topics import Topics
from mockbroker.control.resources.clock import clock_json
from mockbroker.control.resources.server import cluster_json
from mockbroker.control.resources.transactions import transaction_json

TRANSACTIONS = 1_000  # maximum number; the others are counted in ``left_out``
FAULTS = 1_000
Patch: TypeAlias = dict[str, Any]


class StateDocument:
    """The document of the live page.

    Args:
        control: the state of the control API, from which the document is made.

    Attributes:
        content: the document as of the last refresh.
    """

    def __init__(self, control: Control) -> None:
        self.content: dict[str, Any] = {}
        self._control = control
        self._topics, self._groups = Topics(control), Groups(control)
        self._connections, self._shares = Connections(control), Shares(control)
        self._transactions, self._faults = Collection(), Collection()

    def refresh(self) -> Generator[None, None, Patch]:
        """Refresh the document, and return the merge patch from the old document to the new one.

        The generator yields between parts of the work, so that other tasks can run. The time of a running clock always
        changes, so a patch contains the time only together with a further change.
        """
        control, patch, left_out = self._control, Patch(), dict[str, int]()
        yield from self._topics.refresh(left_out)
        yield from self._groups.refresh(self._topics.changed, left_out)
        self._topics.changed.clear()
        yield from self._shares.refresh(left_out)
        yield from self._connections.refresh(left_out)
        yield from self._refresh_others(left_out)
        for name, collection in self._collections().items():
            if collection.patch or name not in self.content:
                self.content[name], patch[name] = collection.content, collection.patch
        self._put("cluster", without_null(cluster_json(control)), patch)
        self._put("events", {"first": control.feed.oldest + 1, "last": control.feed.last}, patch)
        log = control.request_log
        self._put("requests", {"first": log.removed + 1, "last": log.removed + len(log)}, patch)
        self._put("presets", dict.fromkeys(control.cluster.faults.active_presets(), True), patch)
        self._put("left_out", {name: number for name, number in left_out.items() if number}, patch)
        clock = clock_json(control)
        if patch or clock["mode"] == MANUAL or clock["mode"] != self.content["clock"]["mode"]:
            self._put("clock", clock, patch)
        return patch

    def _collections(self) -> Mapping[str, Collection]:
        return {
            "groups": self._groups,
            "shares": self._shares,
            "topics": self._topics,
            "connections": self._connections,
            "transactions": self._transactions,
            "faults": self._faults,
        }

    def _refresh_others(self, left_out: dict[str, int]) -> Slices:
        control = self._control
        named = transactions(control.broker, TRANSACTIONS)
        rules = control.cluster.faults.states() if control.cluster.has_faults else []
        left_out["transactions"] = len(control.broker.transactions) - len(named)
        left_out["faults"] = max(len(rules) - FAULTS, 0)
        objects: list[tuple[Collection, dict[str, Callable[[], Any]]]] = [
            (self._transactions, {key: partial(transaction_json, each) for key, each in named.items()}),
            (self._faults, {each.name: partial(_fault_json, each, at) for at, each in enumerate(rules[:FAULTS])}),
        ]
        for collection, values in objects:
            collection.begin()
            yield from collection.put_all(values)

    def _put(self, name: str, value: dict[str, Any], patch: Patch) -> None:
        if name not in self.content:
            self.content[name] = patch[name] = value
        elif inner := difference(self.content[name], value):
            self.content[name], patch[name] = value, inner


def _fault_json(state: Any, position: int) -> dict[str, Any]:
    return {**state.to_json(), "position": position}
