"""The groups in the document of the live page."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Set
from itertools import islice
from typing import Any
from uuid import UUID

from mockbroker.broker.slices import chunks
from mockbroker.control.control import Control
from mockbroker.control.lag_history import lag
from mockbroker.control.merge_patch import without_null
from mockbroker.control.page.collection import SLICE, Allotment, Collection, Slices
from mockbroker.control.resources.groups import MEMBERS_AT_ONCE, members_json, summary_json, topic_names
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.registry import Groups as Registry

GROUPS = 500  # maximum number of groups
MEMBERS, MEMBERS_IN_ALL = 1_000, 5_000  # of a group, and of all groups
OFFSETS, OFFSETS_IN_ALL = 1_000, 20_000


class Groups(Collection):
    """The groups in the document of the live page.

    A refresh describes only groups that have changed since the last refresh. ``control``: the state of the control API.
    """

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control
        self._registry: Registry | None = None
        self._changed: set[str] = set()  # since the last refresh that was completed
        self._shares: dict[str, tuple[int, int]] = {}  # numbers of members and offsets that are shown, by group id

    def refresh(self, changed_topics: Set[str], left_out: dict[str, int]) -> Slices:
        """Refresh the groups; yield between parts of the work, so that other tasks can run.

        Args:
            changed_topics: names of the topics whose offsets have changed. The lags of groups in these topics are
                updated.
            left_out: dictionary in which the method sets the entries ``groups``, ``members`` and ``offsets``: how many
                of each the page does not show.
        """
        self.begin()
        groups = self._control.broker.groups
        self._note_changed(groups)
        shares = self._share_out(groups, left_out)
        described = {
            group_id
            for group_id in shares
            if group_id in self._changed or shares[group_id] != self._shares.get(group_id)
        }
        names = topic_names(self._control) if described else {}
        for number, (group_id, share) in enumerate(shares.items(), 1):
            group = groups.get(group_id)
            if group is not None and group_id in described:
                self.put(group_id, (yield from self._describe(group, share, names)))
            elif group is not None:
                self._refresh_lags(group_id, changed_topics)
                self._refresh_coordinator(group_id)
            if number % SLICE == 0:
                yield
        self.keep(groups.keys() & shares.keys())
        self._shares = shares
        self._changed = set()  # not before: a refresh that fails is repeated

    def _note_changed(self, groups: Registry) -> None:
        """Collect the ids of the groups that may have changed since the last refresh."""
        if groups is not self._registry or groups.watched is None:
            self._registry, self._shares = groups, {}
        self._changed |= groups.watched or set()
        groups.watched = set()

    def _share_out(self, groups: Registry, left_out: dict[str, int]) -> dict[str, tuple[int, int]]:
        """Decide for each of the first GROUPS groups how many members and committed offsets the page shows.

        Return group id -> (number of members, number of committed offsets).

        ``left_out``: dictionary in which the method sets the entries ``groups``, ``members`` and ``offsets``: how many
        of each the page does not show.
        """
        members, offsets = Allotment(MEMBERS, MEMBERS_IN_ALL), Allotment(OFFSETS, OFFSETS_IN_ALL)
        shares = {
            group_id: (members.take(len(group.members)), offsets.take(len(group.offsets.committed)))
            for group_id, group in islice(groups.items(), GROUPS)
        }
        left_out |= {"groups": max(len(groups) - GROUPS, 0)}
        left_out |= {"members": members.left_out, "offsets": offsets.left_out}
        return shares

    def _describe(
        self, group: CoordinatedGroup, share: tuple[int, int], names: Mapping[UUID, str]
    ) -> Generator[None, None, dict[str, Any]]:
        control = self._control
        ids, members = list(islice(group.members, share[0])), dict[str, Any]()
        for some in chunks(ids, MEMBERS_AT_ONCE):
            for each in members_json(control, group, some, names):
                members[each["member_id"]] = without_null(each)
            if len(ids) > MEMBERS_AT_ONCE:
                yield
        return {
            **without_null(summary_json(control, group)),
            "member_count": len(group.members),
            "members": members,
            "offsets": self._offsets(group, share[1]),
        }

    def _offsets(self, group: CoordinatedGroup, most: int) -> dict[str, dict[str, Any]]:
        topics, found = self._control.broker.cluster.topics, dict[str, dict[str, Any]]()
        for (name, index), committed in sorted(group.offsets.committed.items())[:most]:
            entry = {"offset": committed.offset, "lag": lag(topics, name, index, committed.offset)}
            found.setdefault(name, {})[str(index)] = without_null(entry)
        return found

    def _refresh_lags(self, group_id: str, changed_topics: Set[str]) -> None:
        """Update the lags in a group's entry of the document, and add the changes to the merge patch.

        The method is for a group that has not changed itself.

        Args:
            group_id: id of the group.
            changed_topics: names of the topics whose offsets have changed.
        """
        offsets, topics = self.content[group_id]["offsets"], self._control.broker.cluster.topics
        for name in offsets.keys() & changed_topics:
            for index, entry in offsets[name].items():
                now = lag(topics, name, int(index), entry["offset"])
                if now != entry.get("lag"):
                    offsets[name][index] = without_null({"offset": entry["offset"], "lag": now})
                    patch = self.patch.setdefault(group_id, {}).setdefault("offsets", {})
                    patch.setdefault(name, {})[index] = {"lag": now}

    def _refresh_coordinator(self, group_id: str) -> None:
        """Update the coordinator in a group's entry of the document, and add a change to the merge patch.

        The coordinator is the leader of a partition of ``__consumer_offsets``.
        """
        now = self._control.broker.coordinator(group_id)
        if self.content[group_id]["coordinator"] != now:
            self.content[group_id]["coordinator"] = now
            self.patch.setdefault(group_id, {})["coordinator"] = now
