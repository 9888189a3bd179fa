"""A simulated ZooKeeper: servers that may lag, with sessions, ephemeral nodes and one-time watches.

Server 0 is the leader. Only the leader executes writes and expires sessions. All other servers apply the leader's
changes in order, each server after its lag, and answer reads from their own state. A session is connected to one
server. This server answers a write of the session only after it has applied the change. Therefore a client always reads
its own writes, but other clients may read stale data.

Not modelled: elections, quorums (the leader decides alone and immediately), node versions, sequential nodes, multi.
Source: ZooKeeper's Programmer's Guide, "Consistency Guarantees", "Sessions" and "Watches".
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any, TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue

HOP = 0.002  # mean seconds of a message; actual times vary by half
PINGS = 3  # pings per session timeout

NO_NODE, NODE_EXISTS, SESSION_EXPIRED = "no node", "node exists", "session expired"
CREATED, DELETED, CHANGED, CHILDREN = "created", "deleted", "changed", "children"  # event types of watches


@dataclass(slots=True)
class Traffic:
    """Message counts of all sessions with one role.

    Attributes:
        requests: number of requests, without pings.
        answers: number of responses, without responses to pings.
        pings: number of pings and their responses.
        notifications: number of watch notifications.
        writes: number of write requests.
        watches: number of watches set.
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
    """The response of ZooKeeper to a request.

    Attributes:
        error: NO_NODE, NODE_EXISTS or SESSION_EXPIRED; "" without an error.
        data: data of the node, after a ``read``; else "".
        names: sorted names of the children of the node, after ``children``; else ().
    """

    error: str = ""
    data: str = ""
    names: tuple[str, ...] = ()


Then: TypeAlias = Callable[[Answer], None]
Watch: TypeAlias = Callable[[str, str], None]  # called with the event type and the path
Ask: TypeAlias = Callable[[Then], None]
Asking: TypeAlias = Generator[Ask, Answer, bool]  # yields requests one by one, receives their responses


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a node.

    Attributes:
        kind: CREATED, DELETED or CHANGED.
        path: path of the node.
        data: new data of the node.
        owner: for an ephemeral node, its session id; else 0.
    """

    kind: str
    path: str
    data: str = ""
    owner: int = 0


@dataclass(slots=True)
class Node:
    """A node of the tree, with its data and the session that owns it.

    Attributes:
        data: the data.
        owner: session id of the owner of an ephemeral node; 0 for a persistent node.
        children: names of the children, as the keys of a dict.
    """

    data: str
    owner: int
    children: dict[str, None] = field(default_factory=dict)


class Tree:
    """The tree of nodes, as one server knows it."""

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
        """Return the paths of missing parents of ``path``, from the root down."""
        parts = path.split("/")
        return [above for above in ("/".join(parts[:n]) for n in range(2, len(parts))) if above not in self.nodes]

    def owned_by(self, session: int) -> list[str]:
        return sorted(path for path, node in self.nodes.items() if session and node.owner == session)


class Server:
    """A ZooKeeper server.

    Attributes:
        number: server number; 0 is the leader.
        lag: one-way delay of messages between this server and the leader, seconds.
        tree: the nodes as this server knows them.
        there: virtual time at which the last message to the leader arrives, seconds.
        here: virtual time at which the last message from the leader arrives, seconds.
        data_watches: path -> session -> watch on the node.
        child_watches: path -> session -> watch on the node's children.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.lag = 0.0
        self.tree = Tree()
        self.there = 0.0
        self.here = 0.0
        self.data_watches: dict[str, dict[Session, Watch]] = {}
        self.child_watches: dict[str, dict[Session, Watch]] = {}

    def forget(self, session: Session) -> None:
        for watches in (self.data_watches, self.child_watches):
            for waiting in watches.values():
                waiting.pop(session, None)

    @property
    def watchers(self) -> set[Session]:
        """The sessions that have set a watch at this server."""
        both = (self.data_watches, self.child_watches)
        return {session for watches in both for waiting in watches.values() for session in waiting}


class Session:
    """A client session.

    A method with the argument ``then`` calls this function with the response. If the session is over when the response
    arrives, ``then`` is not called.

    Args:
        ensemble: the ensemble to which the session belongs.

    Attributes:
        number: session id.
        role: kind of client, for the message counts.
        server: number of the server that the session is connected to.
        timeout: session timeout, seconds.
        open: whether the leader has accepted the session, and ``over`` is False.
        over: whether the client closed or abandoned the session, or was notified that it expired.
        expired: function that is called when the client is notified that its session expired.
    """

    def __init__(
        self, ensemble: ZooKeeper, number: int, role: str, server: int, timeout: float, expired: Callable[[], None]
    ) -> None:
        self.number = number
        self.role = role
        self.server = server
        self.timeout = timeout
        self.open = False
        self.over = False
        self.expired = expired
        self.there = 0.0  # arrival time of the last request
        self.here = 0.0  # arrival time of the last response
        self._ensemble = ensemble

    def create(self, path: str, then: Then, data: str = "", *, ephemeral: bool = False) -> None:
        """Create a node. Missing parents are created as persistent nodes.

        Args:
            path: path of the node.
            then: function that is called with the response.
            data: data of the node.
            ephemeral: True to delete the node when the session ends.
        """
        self._ensemble.write(self, Change(CREATED, path, data, self.number if ephemeral else 0), then)

    def delete(self, path: str, then: Then) -> None:
        self._ensemble.write(self, Change(DELETED, path), then)

    def put(self, path: str, data: str, then: Then) -> None:
        """Change the data of a node.

        Args:
            path: path of the node.
            data: the new data.
            then: function that is called with the response.
        """
        self._ensemble.write(self, Change(CHANGED, path, data), then)

    def read(self, path: str, then: Then, watch: Watch | None = None) -> None:
        """Read the data of a node.

        Args:
            path: path of the node.
            then: function that is called with the response.
            watch: function that is called once: when the node is changed or deleted or, if the node does not exist,
                when the node is created. None for no watch.
        """
        self._ensemble.read_node(self, path, then, watch, children=False)

    def children(self, path: str, then: Then, watch: Watch | None = None) -> None:
        """Read the names of a node's children.

        Args:
            path: path of the node.
            then: function that is called with the response.
            watch: function that is called once: when a child is added or removed, or when the node is deleted. None for
                no watch. If the node does not exist, no watch is set.
        """
        self._ensemble.read_node(self, path, then, watch, children=True)

    def close(self) -> None:
        """Close the session. The leader deletes the session's ephemeral nodes when the request arrives."""
        if not self.over:
            self._ensemble.close(self)

    def abandon(self) -> None:
        """End the client process without closing the session. Its ephemeral nodes remain until the session expires."""
        self.over, self.open = True, False
        self._ensemble.servers[self.server].forget(self)


def carry_out(asking: Asking, holds: Callable[[], bool], answer: Answer | None = None) -> None:
    """Run a generator that yields ZooKeeper requests: send each request after the response to the previous one.

    The function returns before the responses arrive.

    Args:
        asking: the generator. It yields functions that send a request, and receives the responses.
        holds: function that is called before each request; if it returns False, the generator is not continued.
        answer: response to send to the generator first; None to start the generator.
    """
    if not holds():
        return
    try:
        ask = next(asking) if answer is None else asking.send(answer)
    except StopIteration:
        return
    ask(lambda response: carry_out(asking, holds, response))


class ZooKeeper:
    """The simulated ZooKeeper ensemble.

    Args:
        queue: the event queue, which has the virtual time.
        dice: random number generator for the network delays.
        servers: number of servers.

    Attributes:
        servers: servers of the ensemble; server 0 is the leader.
        traffic: message counts by role of the sessions.
    """

    def __init__(self, queue: Queue, dice: Dice, servers: int = 3) -> None:
        self.queue = queue
        self.servers = [Server(number) for number in range(servers)]
        self.leader = self.servers[0]
        self.traffic: dict[str, Traffic] = {}
        self._dice = dice
        self._sessions: dict[int, tuple[Session, float]] = {}  # session id -> session, time of its last message
        self._numbers = 0

    def of(self, role: str) -> Traffic:
        return self.traffic.setdefault(role, Traffic())

    def lag(self, server: int, seconds: float) -> None:
        """Set the one-way delay of messages between a server and the leader of the ensemble.

        The leader itself never lags.

        Args:
            server: number of the server; for 0 (the leader) the delay remains 0.
            seconds: one-way delay, seconds.
        """
        self.servers[server].lag = seconds if server else 0.0

    def connect(
        self,
        role: str,
        server: int,
        timeout: float,
        granted: Callable[[Session], None],
        expired: Callable[[], None],
    ) -> Session:
        """Open a session, and return it.

        If a server does not respond in time, the next server is tried (ClientCnxn's connectTimeout).

        Args:
            role: kind of client, for the message counts.
            server: number of the first server to try.
            timeout: session timeout, seconds.
            granted: function that is called with the session when the leader has accepted it.
            expired: function that is called when the client is notified that its session expired.
        """
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
        """The sessions that have set a watch at any server, in the order of their ids."""
        sessions = {session for server in self.servers for session in server.watchers}
        return sorted(sessions, key=lambda session: session.number)

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
        """Apply changes of nodes on all servers: each server applies them when the message from the leader arrives.

        Args:
            changes: changes of nodes.
            origin: session whose request caused the changes.
            after: function that is called when the server to which ``origin`` is connected has applied the changes.
        """
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
        fired = dict(server.data_watches.pop(change.path, {}))
        if change.kind == DELETED:  # a deletion fires both kinds of watches with one event
            fired |= server.child_watches.pop(change.path, {})
        self._notify(fired, change.kind, change.path)
        if change.kind != CHANGED:
            self._notify(server.child_watches.pop(parent, {}), CHILDREN, parent)

    def _notify(self, watches: dict[Session, Watch], kind: str, path: str) -> None:
        for session, watch in watches.items():
            self.of(session.role).notifications += 1
            self._deliver(session, watch, kind, path)

    # --- reading ---

    def read_node(self, session: Session, path: str, then: Then, watch: Watch | None, *, children: bool) -> None:
        """Read the data of a node, or the names of its children, for a session.

        Args:
            session: the session.
            path: path of the node.
            then: function that is called with the response.
            watch: function that is called once when the node (or, if ``children`` is True, the list of its children)
                changes; None for no watch.
            children: True to read the names of the children, False to read the data.
        """
        traffic = self.of(session.role)
        traffic.requests += 1
        traffic.watches += watch is not None
        self._arrive(session, self._read_node, session, path, then, watch, children)

    def _read_node(self, session: Session, path: str, then: Then, watch: Watch | None, children: bool) -> None:
        server = self.servers[session.server]
        self._renew(server, session)
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
        """Forward a write of a session to the leader.

        Args:
            session: the session.
            change: the change of a node.
            then: function that is called with the response.
        """
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
            return  # a late response from a server that timed out
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
        self.of(session.role).pings += 1  # the response
        self._renew(self.servers[session.server], session)

    def _renew(self, server: Server, session: Session) -> None:
        self._to_leader(server, self._touch, session)

    def _touch(self, session: Session) -> None:
        if session.number in self._sessions:
            self._sessions[session.number] = session, self.queue.now

    def _check(self, session: Session) -> None:
        """Expire a session if no message of the client has arrived for the session timeout.

        If the session timeout is not over, check again when it ends. Do nothing if the session has ended.

        ``session``: the session.
        """
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
        """Remove a session that has ended from the server to which it is connected, and notify its client.

        The client is not notified if it closed or abandoned the session. The method is called when this server has
        applied the end of the session.
        """
        self.servers[session.server].forget(session)
        if not session.over:
            self._deliver(session, self._notify_expired, session)

    def _notify_expired(self, session: Session) -> None:
        session.over, session.open = True, False
        session.expired()

    def close(self, session: Session) -> None:
        """Close a session. The leader deletes the session's ephemeral nodes when the request arrives."""
        session.over, session.open = True, False
        self.of(session.role).requests += 1
        self.servers[session.server].forget(session)
        server = self.servers[session.server]
        self._arrive(session, self._to_leader, server, self._end, session)
