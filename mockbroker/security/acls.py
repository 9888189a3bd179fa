"""The ACLs of a cluster, indexed by resource name and prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from mockbroker.security.acl import WILDCARD, Acl, PatternType


class Acls:
    """The ACLs of a cluster.

    A lookup of a resource name reads one dictionary entry for the name, and one for each prefix of the name whose
    length occurs in an ACL. The cost therefore depends on the number of different prefix lengths, not on the number of
    ACLs.

    Attributes:
        version: number that increases with every call of ``add`` and ``remove``.
    """

    def __init__(self) -> None:
        self.version = 0
        self._all: dict[Acl, None] = {}  # in the order of creation
        self._patterns: dict[tuple[int, int, str], list[Acl]] = {}  # by resource type, pattern type and name
        self._lengths: dict[int, Counter[int]] = {}  # by resource type, number of prefixed ACLs of each length

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def __contains__(self, acl: object) -> bool:
        return acl in self._all

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs. An ACL that exists already is ignored."""
        for acl in acls:
            if acl not in self._all:
                self._all[acl] = None
                self._patterns.setdefault((acl.resource_type, acl.pattern_type, acl.name), []).append(acl)
                if acl.pattern_type == PatternType.PREFIXED:
                    self._lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        self.version += 1

    def remove(self, acls: Collection[Acl]) -> None:
        """Remove ACLs; an ACL that does not exist is ignored."""
        for acl in acls:
            if acl in self._all:
                del self._all[acl]
                self._unindex(acl)
        self.version += 1

    def matching(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the ACLs whose resource type and pattern match a resource.

        Args:
            resource_type: type of the resource, a ResourceType.
            name: name of the resource.
        """
        patterns = self._patterns
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            yield from patterns.get((resource_type, PatternType.LITERAL, literal), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from patterns.get((resource_type, PatternType.PREFIXED, name[:length]), ())

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        """Yield the ACLs of a resource type."""
        return (acl for acl in self._all if acl.resource_type == resource_type)

    def _unindex(self, acl: Acl) -> None:
        pattern = acl.resource_type, acl.pattern_type, acl.name
        others = self._patterns[pattern]
        others.remove(acl)
        if not others:
            del self._patterns[pattern]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]
