"""A pretend ZooKeeper: several servers, of which some lag, sessions, ephemeral nodes and watches that fire once.

Server 0 leads: it alone decides writes and ends sessions. The others apply what it decided, in its order, as late as
they lag, and answer reads from what they have. A session belongs to one server. Whoever writes is answered when its own
server has applied the write, so everybody reads what it wrote itself; others may read older data.

Not modelled: elections, quorums (the leader decides alone and at once), versions of nodes, sequential nodes, multi.
Source: ZooKeeper's Programmer's Guide, "Consistency Guarantees", "Sessions" and "Watches".
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue

HOP = 0.002  # seconds that a message takes, half as long to half as long again
PINGS = 3  # in the time of a session

NO_NODE, NODE_EXISTS, SESSION_EXPIRED = "no node", "node exists", "session expired"
CREATED, DELETED, CHANGED, CHILDREN = "created", "deleted", "changed", "children"  # what watches tell


@dataclass(slots=True)
class Traffic:
    """Messages of the sessions of one role; pings and their answers are not among the requests and answers.

    ``writes``: how many requests were to write; ``watches``: how many times a watch was set.
    """

    requests: int = 0
    answers: int = 0
    pings: int = 0
    notifications: int = 0
    writes: int = 0
    watches: int = 0

    @property
    def messages(self) -> int:
        return self.requests + self.answers + self.pings + self.notifications


@dataclass(frozen=True, slots=True)
class Answer:
    """``names``: of children, sorted."""

    error: str = ""
    data: str = ""
    names: tuple[str, ...] = ()


Then: TypeAlias = Callable[[Answer], None]
Watch: TypeAlias = Callable[[str, str], None]  # is told what happened and the path
Ask: TypeAlias = Callable[[Then], None]
Asking: TypeAlias = Generator[Ask, Answer, bool]  # asks one thing after the other


@dataclass(frozen=True, slots=True)
class Change:
    """``kind``: CREATED, DELETED or CHANGED. ``owner``: the session of an ephemeral node, else 0."""

    kind: str
    path: str
    data: str = ""
    owner: int = 0


@dataclass(slots=True)
class Node:
    data: str
    owner: int
    children: dict[str, None] = field(default_factory=dict)


class Tree:
    """The nodes as one server has them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"": Node("", 0)}

    def apply(self, change: Change) -> None:
        parent, _, name = change.path.rpartition("/")
        match change.kind:
            case "created":
                self.nodes[change.path] = Node(change.data, change.owner)
                self.nodes[parent].children[name] = None
            case "changed":
                self.nodes[change.path].data = change.data
            case _:
                del self.nodes[change.path]
                del self.nodes[parent].children[name]

    def missing_above(self, path: str) -> list[str]:
        """Paths between the root and ``path`` that have no node, from above."""
        parts = path.split("/")
        return [above for above in ("/".join(parts[:n]) for n in range(2, len(parts))) if above not in self.nodes]

    def owned_by(self, session: int) -> list[str]:
        return sorted(path for path, node in self.nodes.items() if session and node.owner == session)


class Server:
    """``lag``: seconds, each way, between this server and the leader; what is on its way keeps its order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lag = 0.0
        self.tree = Tree()
        self.there = 0.0  # when the last message to the leader arrives
        self.here = 0.0  # when the last one from it arrives
        self.data_watches: dict[str, dict[Session, Watch]] = {}
        self.child_watches: dict[str, dict[Session, Watch]] = {}

    def forget(self, session: Session) -> None:
        for watches in (self.data_watches, self.child_watches):
            for waiting in watches.values():
                waiting.pop(session, None)

    @property
    def watchers(self) -> set[Session]:
        """Sessions that wait to be told something."""
        both = (self.data_watches, self.child_watches)
        return {session for watches in both for waiting in watches.values() for session in waiting}


class Session:
    """A client's side of ZooKeeper. ``open``: it was granted, and the client has not heard that it is over. ``server``:
    which one it is at.

    ``then`` of each method gets the Answer; it is not called any more once the session is over. ``watch`` is called
    once, for the next change.
    """

    def __init__(
        self, ensemble: ZooKeeper, number: int, role: str, server: int, timeout: float, expired: Callable[[], None]
    ) -> None:
        self.number = number
        self.role = role
        self.server = server
        self.timeout = timeout
        self.open = False
        self.over = False  # for the client: closed, abandoned, or it has heard that it expired
        self.expired = expired
        self.there = 0.0  # when the last request arrives
        self.here = 0.0  # when the last answer arrives
        self._ensemble = ensemble

    def create(self, path: str, then: Then, data: str = "", *, ephemeral: bool = False) -> None:
        """Make a node, and persistent ones above it where there are none."""
        self._ensemble.write(self, Change(CREATED, path, data, self.number if ephemeral else 0), then)

    def delete(self, path: str, then: Then) -> None:
        self._ensemble.write(self, Change(DELETED, path), then)

    def put(self, path: str, data: str, then: Then) -> None:
        """Change the data of a node."""
        self._ensemble.write(self, Change(CHANGED, path, data), then)

    def read(self, path: str, then: Then, watch: Watch | None = None) -> None:
        """The data of a node. A watch is set also where there is none, and told when there is."""
        self._ensemble.read_node(self, path, then, watch, children=False)

    def children(self, path: str, then: Then, watch: Watch | None = None) -> None:
        """The names below a node. Where there is none, no watch is set."""
        self._ensemble.read_node(self, path, then, watch, children=True)

    def close(self) -> None:
        """In good order: its ephemeral nodes go as soon as the leader hears of it."""
        if not self.over:
            self._ensemble.close(self)

    def abandon(self) -> None:
        """The process is gone without a word: its ephemeral nodes stay until the session has expired."""
        self.over, self.open = True, False
        self._ensemble.servers[self.server].forget(self)


def carry_out(asking: Asking, holds: Callable[[], bool], answer: Answer | None = None) -> None:
    """Ask the first thing, with its answer the next one, and so on, for as long as ``holds`` says so."""
    if not holds():
        return
    try:
        ask = next(asking) if answer is None else asking.send(answer)
    except StopIteration:
        return
    ask(lambda told: carry_out(asking, holds, told))


class ZooKeeper:
    """``traffic``: by role of the sessions."""

    def __init__(self, queue: Queue, dice: Dice, servers: int = 3) -> None:
        self.queue = queue
        self.servers = [Server(number) for number in range(servers)]
        self.leader = self.servers[0]
        self.traffic: dict[str, Traffic] = {}
        self._dice = dice
        self._sessions: dict[int, tuple[Session, float]] = {}  # those that the leader knows, and when each was heard of
        self._numbers = 0

    def of(self, role: str) -> Traffic:
        return self.traffic.setdefault(role, Traffic())

    def lag(self, server: int, seconds: float) -> None:
        """From now on messages between this server and the leader take so long."""
        self.servers[server].lag = seconds if server else 0.0

    def connect(
        self,
        role: str,
        server: int,
        timeout: float,
        granted: Callable[[Session], None],
        expired: Callable[[], None],
    ) -> Session:
        """A new session. ``granted`` is called with it when the leader knows it, ``expired`` when the client hears
        that it is over; ``timeout``: seconds. A server that does not answer in its part of the time is left for the
        next one, as clients do (ClientCnxn, connectTimeout)."""
        self._numbers += 1
        session = Session(self, self._numbers, role, server, timeout, expired)
        self._ask_for(session, granted)
        return session

    def _ask_for(self, session: Session, granted: Callable[[Session], None]) -> None:
        self.of(session.role).requests += 1
        self._arrive(session, self._begin, session, granted)
        self.queue.after(session.timeout / len(self.servers), self._ask_another, session, granted)

    def _ask_another(self, session: Session, granted: Callable[[Session], None]) -> None:
        if not session.open and not session.over:
            session.server = (session.server + 1) % len(self.servers)
            self._ask_for(session, granted)

    @property
    def watchers(self) -> list[Session]:
        """Sessions with a watch at any server, in the order in which they began."""
        found = {session for server in self.servers for session in server.watchers}
        return sorted(found, key=lambda session: session.number)

    # --- between client and server, in order ---

    def _hop(self) -> float:
        return HOP * (0.5 + self._dice.random())

    def _arrive(self, session: Session, what: Callable[..., None], *with_: Any) -> None:
        session.there = max(session.there, self.queue.now + self._hop())
        self.queue.at(session.there, what, *with_)

    def _deliver(self, session: Session, what: Callable[..., None], *with_: Any) -> None:
        session.here = max(session.here, self.queue.now + self._hop())
        self.queue.at(session.here, self._unless_over, session, what, with_)

    def _unless_over(self, session: Session, what: Callable[..., None], with_: tuple[Any, ...]) -> None:
        if not session.over:
            what(*with_)

    def _answer(self, session: Session, then: Then, answer: Answer) -> None:
        self.of(session.role).answers += 1
        self._deliver(session, then, answer)

    # --- between servers, in order ---

    def _to_leader(self, server: Server, what: Callable[..., None], *with_: Any) -> None:
        if server is self.leader:
            what(*with_)
            return
        server.there = max(server.there, self.queue.now + server.lag + self._hop())
        self.queue.at(server.there, what, *with_)

    def _to_all(self, changes: list[Change], origin: Session, after: Callable[[], None]) -> None:
        """Every server applies the changes; ``after`` is called when the one of ``origin`` has."""
        for server in self.servers:
            then = after if server.number == origin.server else None
            if server is self.leader:
                self._apply(server, changes, then)
            else:
                server.here = max(server.here, self.queue.now + server.lag + self._hop())
                self.queue.at(server.here, self._apply, server, changes, then)

    def _apply(self, server: Server, changes: list[Change], then: Callable[[], None] | None) -> None:
        for change in changes:
            server.tree.apply(change)
            self._fire(server, change)
        if then is not None:
            then()

    # --- watches ---

    def _fire(self, server: Server, change: Change) -> None:
        parent = change.path.rpartition("/")[0]
        told = dict(server.data_watches.pop(change.path, {}))
        if change.kind == DELETED:  # one event tells both kinds of watches
            told |= server.child_watches.pop(change.path, {})
        self._tell(told, change.kind, change.path)
        if change.kind != CHANGED:
            self._tell(server.child_watches.pop(parent, {}), CHILDREN, parent)

    def _tell(self, watches: dict[Session, Watch], kind: str, path: str) -> None:
        for session, watch in watches.items():
            self.of(session.role).notifications += 1
            self._deliver(session, watch, kind, path)

    # --- reading ---

    def read_node(self, session: Session, path: str, then: Then, watch: Watch | None, *, children: bool) -> None:
        """See Session.read and Session.children."""
        traffic = self.of(session.role)
        traffic.requests += 1
        traffic.watches += watch is not None
        self._arrive(session, self._look, session, path, then, watch, children)

    def _look(self, session: Session, path: str, then: Then, watch: Watch | None, children: bool) -> None:
        server = self.servers[session.server]
        self._heard(server, session)
        node = server.tree.nodes.get(path)
        if watch is not None and not session.over and (node is not None or not children):
            watches = server.child_watches if children else server.data_watches
            watches.setdefault(path, {})[session] = watch
        if node is None:
            self._answer(session, then, Answer(NO_NODE))
        elif children:
            self._answer(session, then, Answer(names=tuple(sorted(node.children))))
        else:
            self._answer(session, then, Answer(data=node.data))

    # --- writing ---

    def write(self, session: Session, change: Change, then: Then) -> None:
        """See Session.create, delete and put."""
        traffic = self.of(session.role)
        traffic.requests += 1
        traffic.writes += 1
        self._arrive(session, self._forward, session, change, then)

    def _forward(self, session: Session, change: Change, then: Then) -> None:
        self._to_leader(self.servers[session.server], self._decide, session, change, then)

    def _decide(self, session: Session, change: Change, then: Then) -> None:
        error = self._refusal(session, change)
        changes: list[Change] = []
        if not error:
            self._touch(session)
            if change.kind == CREATED:
                changes = [Change(CREATED, above) for above in self.leader.tree.missing_above(change.path)]
            changes.append(change)
        self._to_all(changes, session, lambda: self._answer(session, then, Answer(error)))

    def _refusal(self, session: Session, change: Change) -> str:
        if session.number not in self._sessions:
            return SESSION_EXPIRED
        there = change.path in self.leader.tree.nodes
        if change.kind == CREATED:
            return NODE_EXISTS if there else ""
        return "" if there else NO_NODE

    # --- sessions ---

    def _begin(self, session: Session, granted: Callable[[Session], None]) -> None:
        self._to_leader(self.servers[session.server], self._grant, session, granted)

    def _grant(self, session: Session, granted: Callable[[Session], None]) -> None:
        if session.number not in self._sessions:
            self.queue.after(session.timeout, self._check, session)
        self._sessions[session.number] = session, self.queue.now
        self._to_all([], session, lambda: self._answer(session, lambda _: self._opened(session, granted), Answer()))

    def _opened(self, session: Session, granted: Callable[[Session], None]) -> None:
        if session.open:
            return  # a server that was left has answered after all
        session.open = True
        self._ping_later(session)
        granted(session)

    def _ping_later(self, session: Session) -> None:
        self.queue.after(session.timeout / PINGS, self._ping, session)

    def _ping(self, session: Session) -> None:
        if session.over:
            return
        self.of(session.role).pings += 1
        self._arrive(session, self._pinged, session)
        self._ping_later(session)

    def _pinged(self, session: Session) -> None:
        self.of(session.role).pings += 1  # the answer
        self._heard(self.servers[session.server], session)

    def _heard(self, server: Server, session: Session) -> None:
        self._to_leader(server, self._touch, session)

    def _touch(self, session: Session) -> None:
        if session.number in self._sessions:
            self._sessions[session.number] = session, self.queue.now

    def _check(self, session: Session) -> None:
        """The leader ends a session that it has not heard of for its time."""
        if session.number not in self._sessions:
            return
        due = self._sessions[session.number][1] + session.timeout
        if due > self.queue.now:
            self.queue.at(due, self._check, session)
        else:
            self._end(session)

    def _end(self, session: Session) -> None:
        if self._sessions.pop(session.number, None) is not None:
            changes = [Change(DELETED, path) for path in self.leader.tree.owned_by(session.number)]
            self._to_all(changes, session, lambda: self._ended(session))

    def _ended(self, session: Session) -> None:
        """Its server knows that the session is over; so does the client, a moment later."""
        self.servers[session.server].forget(session)
        if not session.over:
            self._deliver(session, self._tell_expired, session)

    def _tell_expired(self, session: Session) -> None:
        session.over, session.open = True, False
        session.expired()

    def close(self, session: Session) -> None:
        """See Session.close."""
        session.over, session.open = True, False
        self.of(session.role).requests += 1
        self.servers[session.server].forget(session)
        server = self.servers[session.server]
        self._arrive(session, self._to_leader, server, self._end, session)
