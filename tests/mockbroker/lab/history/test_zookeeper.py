"""The simulated ZooKeeper has the guarantees of the real one, and a lag that can be set."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mockbroker.lab.history import zookeeper as zk
from mockbroker.lab.history.zookeeper import Answer, Session, ZooKeeper
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue

TIMEOUT = 6.0
LONGEST_HOP = 1.5 * zk.HOP


class World:
    """A ZooKeeper ensemble with clients.

    Attributes:
        notified: watch events.
        expired: time at which each expired session was notified of it.
    """

    def __init__(self, seed: int = 0) -> None:
        self.queue = Queue()
        self.ensemble = ZooKeeper(self.queue, Dice("test", seed))
        self.notified: list[tuple[str, str]] = []
        self.expired: dict[int, float] = {}

    def session(self, server: int = 0, timeout: float = TIMEOUT, role: str = "consumer") -> Session:
        results: list[Session] = []
        session = self.ensemble.connect(role, server, timeout, results.append, lambda: self._expired(session))
        while not results:
            self.queue.step()
        return session

    def _expired(self, session: Session) -> None:
        self.expired[session.number] = self.queue.now

    def watch(self, kind: str, path: str) -> None:
        self.notified.append((kind, path))

    def ask(self, what: Any, *args: Any, **named: Any) -> Answer:
        """Send a request, and advance the time until it is answered; return the answer."""
        results: list[Answer] = []
        what(*args, results.append, **named)
        while not results:
            self.queue.step()
        return results[0]

    def wait(self, seconds: float) -> None:
        until = self.queue.now + seconds
        while self.queue.next <= until:
            self.queue.step()
        self.queue.now = until

    def paths(self, server: int) -> set[str]:
        return set(self.ensemble.servers[server].tree.nodes)


def test_create_makes_missing_parents():
    world = World()
    session = world.session()
    assert world.ask(session.create, "/a/b/c", data="x") == Answer()
    assert world.ask(session.read, "/a/b/c") == Answer(data="x")
    assert world.ask(session.children, "/a") == Answer(names=("b",))
    assert world.ask(session.create, "/a/b") == Answer(zk.NODE_EXISTS)
    assert world.ask(session.read, "/z") == Answer(zk.NO_NODE)
    assert world.ask(session.delete, "/z") == Answer(zk.NO_NODE)
    assert world.ask(session.put, "/a/b/c", "y") == Answer()
    assert world.ask(session.read, "/a/b/c") == Answer(data="y")
    assert world.ask(session.delete, "/a/b/c") == Answer()
    assert world.ask(session.children, "/a/b") == Answer()


def test_ephemeral_node_is_deleted_with_its_session():
    """The node is deleted at once if the session is closed, and after the session timeout if the process just
    disappears."""
    world = World()
    first, second, other = world.session(), world.session(1), world.session(2)
    world.ask(first.create, "/ids/first", ephemeral=True)
    world.ask(second.create, "/ids/second", ephemeral=True)
    world.ask(other.create, "/ids/other", ephemeral=True)
    first.close()
    world.wait(0.1)
    assert world.ask(other.children, "/ids").names == ("other", "second")
    world.wait(20.0)
    assert world.ask(other.children, "/ids").names == ("other", "second")  # sessions that send pings do not expire
    second.abandon()
    world.wait(TIMEOUT * (1 - 1 / zk.PINGS) - 0.1)
    assert world.ask(other.children, "/ids").names == ("other", "second")
    world.wait(TIMEOUT / zk.PINGS + 0.2)
    assert world.ask(other.children, "/ids").names == ("other",)
    assert world.expired == {}


def test_a_watch_fires_once():
    """A watch fires once; a client sets it again for the next change."""
    world = World()
    writer, reader = world.session(), world.session(1)
    world.ask(writer.create, "/ids/a")
    world.wait(0.1)
    world.ask(reader.children, "/ids", watch=world.watch)
    world.ask(writer.create, "/ids/b")
    world.ask(writer.create, "/ids/c")
    world.wait(0.1)
    assert world.notified == [(zk.CHILDREN, "/ids")]
    assert world.ask(reader.children, "/ids", watch=world.watch).names == ("a", "b", "c")
    world.ask(writer.delete, "/ids/a")
    world.wait(0.1)
    assert world.notified == [(zk.CHILDREN, "/ids")] * 2
    assert world.ensemble.of("consumer").notifications == 2
    assert world.ensemble.of("consumer").watches == 2


@pytest.mark.parametrize(
    ("do", "notified"),
    [
        (lambda session: (session.put, "/a", "y"), zk.CHANGED),
        (lambda session: (session.delete, "/a"), zk.DELETED),
    ],
)
def test_watch_of_node_data(do, notified):
    world = World()
    session = world.session()
    world.ask(session.create, "/a", data="x")
    world.ask(session.read, "/a", watch=world.watch)
    world.ask(*do(session))
    world.ask(session.create, "/a")
    world.ask(session.put, "/a", "z")
    world.wait(0.1)
    assert world.notified == [(notified, "/a")]


def test_watch_of_a_node_that_does_not_exist_yet():
    world = World()
    session = world.session()
    assert world.ask(session.read, "/a", watch=world.watch).error == zk.NO_NODE
    assert world.ask(session.children, "/b", watch=world.watch).error == zk.NO_NODE
    world.ask(session.create, "/a")
    world.ask(session.create, "/b/c")
    world.wait(0.1)
    assert world.notified == [(zk.CREATED, "/a")]


def test_deletion_fires_both_watches_with_one_event():
    world = World()
    session = world.session()
    world.ask(session.create, "/a")
    world.ask(session.read, "/a", watch=world.watch)
    world.ask(session.children, "/a", watch=world.watch)
    world.ask(session.delete, "/a")
    world.wait(0.1)
    assert world.notified == [(zk.DELETED, "/a")]


def test_lagging_server_returns_stale_data():
    """Two clients see different data at the same time; a client reads its own writes."""
    world = World()
    first, second, late = world.session(0), world.session(1), world.session(2)
    world.ask(first.create, "/ids/a")
    world.wait(0.1)
    world.ensemble.lag(2, 3.0)
    begun = world.queue.now
    world.ask(first.create, "/ids/b")
    world.wait(0.1)
    assert world.ask(second.children, "/ids").names == ("a", "b")
    assert world.ask(late.children, "/ids").names == ("a",)
    assert world.ask(late.create, "/ids/c") == Answer()
    assert world.queue.now - begun > 2 * 3.0  # the lag in both directions
    assert world.ask(late.children, "/ids").names == ("a", "b", "c")


def test_watch_fires_before_new_data_is_read():
    world = World()
    writer, late = world.session(0), world.session(2)
    world.ask(writer.create, "/ids/a")
    world.wait(0.1)
    world.ask(late.children, "/ids", watch=world.watch)
    world.ensemble.lag(2, 2.0)
    world.ask(writer.create, "/ids/b")
    while world.ask(late.children, "/ids").names == ("a",):
        assert world.notified == []
    assert world.notified == [(zk.CHILDREN, "/ids")]


def test_session_expires_before_a_lagging_client_knows():
    """The leader gets no ping for a session timeout and deletes the session's nodes; the client's own server still has
    them."""
    world = World()
    first, late = world.session(0), world.session(2)
    world.ask(late.create, "/ids/late", ephemeral=True)
    world.ensemble.lag(2, 8.0)
    world.wait(TIMEOUT + 0.1)
    assert world.ask(first.children, "/ids").names == ()
    assert world.ask(late.children, "/ids").names == ("late",)
    assert late.open
    assert world.expired == {}
    world.wait(8.1)
    assert list(world.expired) == [late.number]
    assert not late.open


def test_session_with_constant_lag_does_not_expire():
    world = World()
    late = world.session(2)
    world.ensemble.lag(2, 3.0)
    world.wait(60.0)
    assert world.ask(late.create, "/a", ephemeral=True) == Answer()
    assert world.expired == {}


def test_client_tries_the_next_server_without_a_response():
    """A client tries the next server after a third of the session timeout; the late response of the first opens no
    second session."""
    world = World()
    world.ensemble.lag(2, 8.0)
    begun = world.queue.now
    granted: list[Session] = []
    session = world.ensemble.connect("consumer", 2, TIMEOUT, granted.append, lambda: world._expired(session))
    world.wait(TIMEOUT / 3 - 0.1)
    assert granted == []
    world.wait(0.2)
    assert granted == [session]
    assert session.server == 0
    assert world.queue.now - begun < TIMEOUT / 2
    world.wait(60.0)
    assert granted == [session]
    assert world.expired == {}
    assert world.ask(session.create, "/a", ephemeral=True) == Answer()
    pings = world.ensemble.of("consumer").pings
    world.wait(TIMEOUT)
    assert world.ensemble.of("consumer").pings - pings == 2 * zk.PINGS


def test_write_in_an_expired_session_is_an_error():
    world = World()
    late = world.session(2)
    world.ensemble.lag(2, 8.0)
    world.wait(TIMEOUT + 0.1)
    answers: list[Answer] = []
    late.create("/a", answers.append)
    world.wait(20.0)
    assert answers == []  # responses after the end of a session are dropped
    assert list(world.expired) == [late.number]
    assert "/a" not in world.paths(0)


def test_the_leader_never_lags():
    world = World()
    world.ensemble.lag(0, 5.0)
    before = world.queue.now
    world.ask(world.session(0).create, "/a")
    assert world.queue.now - before < 1.0


def test_order_is_kept_when_a_lag_ends():
    world = World()
    writer, late = world.session(0), world.session(2)
    world.ask(writer.create, "/n", data="0")
    world.wait(0.1)
    world.ensemble.lag(2, 4.0)
    world.ask(writer.put, "/n", "1")
    world.ensemble.lag(2, 0.0)
    world.ask(writer.put, "/n", "2")
    world.wait(1.0)
    assert world.ask(late.read, "/n").data == "0"
    world.wait(3.1)
    assert world.ask(late.read, "/n").data == "2"


def noted(line: list[tuple[str, str]], usual: Any, change: zk.Change) -> None:
    line.append((change.kind, change.path))
    usual(change)


@pytest.mark.parametrize("seed", range(20))
def test_all_servers_apply_the_same_changes(seed):
    """All servers apply the same changes in the same order and end in the same state, whatever clients request and
    however servers lag."""
    world = World(seed)
    dice = Dice("asks", seed)
    history: list[list[tuple[str, str]]] = [[], [], []]
    for server, line in zip(world.ensemble.servers, history, strict=True):
        usual = server.tree.apply
        server.tree.apply = partial(noted, line, usual)  # type: ignore[method-assign]
    sessions = [world.session(number % 3, TIMEOUT if number < 3 else 60.0) for number in range(6)]
    for _ in range(200):
        session = dice.pick(sessions)
        path = f"/{dice.pick('ab')}/{dice.pick('cdef')}"
        match dice.below(6):
            case 0 | 1:
                session.create(path, lambda _: None, ephemeral=dice.chance(0.5))
            case 2:
                session.delete(path, lambda _: None)
            case 3:
                session.put(path, str(dice.below(9)), lambda _: None)
            case 4:
                world.ensemble.lag(dice.below(3), dice.pick([0.0, 0.5, 8.0]))
            case _:
                world.wait(dice.between(0.0, 1.0))
        leader = history[0]
        assert all(line == leader[: len(line)] for line in history)
    for number in range(3):
        world.ensemble.lag(number, 0.0)
    world.wait(60.0)
    assert len(history[0]) > 20
    assert history[0] == history[1] == history[2]
    assert world.paths(0) == world.paths(1) == world.paths(2)


def test_traffic_is_counted_by_role():
    world = World()
    writer, reader = world.session(role="broker"), world.session(role="consumer")
    world.ask(writer.create, "/a")
    world.ask(reader.children, "/a", watch=world.watch)
    world.ask(writer.create, "/a/b")
    world.wait(0.1)
    broker, consumer = world.ensemble.of("broker"), world.ensemble.of("consumer")
    assert (broker.requests, broker.answers, broker.writes, broker.notifications) == (3, 3, 2, 0)
    assert (consumer.requests, consumer.answers, consumer.writes, consumer.notifications) == (2, 2, 0, 1)
    world.wait(TIMEOUT)
    assert consumer.pings == 2 * zk.PINGS
    assert consumer.messages == 2 + 2 + 2 * zk.PINGS + 1
    assert [session.role for session in world.ensemble.watchers] == []
