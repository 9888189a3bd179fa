"""One run of the simulation, in three phases: faults occur, all groups recover, all clients stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nextafter

from mockbroker.base.buggify import WAKE_EARLY
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import NO_LIMIT, Settings
from mockbroker.broker import failover
from mockbroker.broker.broker import SLICE_SIZE, Broker
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.journal import Journal
from mockbroker.faults.parsing import parse_rule
from mockbroker.groups.classic.rules import NEW_MEMBER_TIMEOUT
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation import liveness
from mockbroker.lab.simulation.buggify import EARLIEST, Buggify
from mockbroker.lab.simulation.checkers import CHECKERS
from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.clients.admin import Admin
from mockbroker.lab.simulation.clients.administrator import Administrator, Prober
from mockbroker.lab.simulation.clients.classic import ClassicClient
from mockbroker.lab.simulation.clients.client import REQUEST_TIMEOUT, Client
from mockbroker.lab.simulation.clients.cluster_operators import LeaderElector, ReplicaMover, Unregisterer
from mockbroker.lab.simulation.clients.committer import Committer
from mockbroker.lab.simulation.clients.consumer import ConsumerClient
from mockbroker.lab.simulation.clients.describer import Describer
from mockbroker.lab.simulation.clients.expiry_prober import (
    ExpiryProber,
    OffsetProber,
    ProducerIdProber,
    TransactionalIdProber,
)
from mockbroker.lab.simulation.clients.keeper import FinalKeeper, Keeper
from mockbroker.lab.simulation.clients.login_operator import LoginOperator
from mockbroker.lab.simulation.clients.marker_writer import MarkerWriter
from mockbroker.lab.simulation.clients.offset_viewer import OffsetViewer
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.clients.processor import ClassicProcessor, ConsumerProcessor, Processor
from mockbroker.lab.simulation.clients.producer import IdempotentProducer, Producer, TransactionalProducer
from mockbroker.lab.simulation.clients.reader import Reader
from mockbroker.lab.simulation.clients.record_reader import (
    FinalCommittedReader,
    FinalReader,
    RecordClassic,
    RecordConsumer,
    RecordReader,
)
from mockbroker.lab.simulation.clients.share import ShareClient
from mockbroker.lab.simulation.clients.share_operators import ShareOffsetOperator, ShareStateOperator
from mockbroker.lab.simulation.clients.state_operators import ConfigReplacer, CredentialOperator, FeatureOperator
from mockbroker.lab.simulation.clients.streams import StreamsClient
from mockbroker.lab.simulation.clients.telemetry_client import TelemetryClient
from mockbroker.lab.simulation.clients.throttled import (
    QuotaSetter,
    Throttled,
    ThrottledAdministrator,
    ThrottledConsumer,
    ThrottledProducer,
)
from mockbroker.lab.simulation.clients.token_operator import TokenOperator
from mockbroker.lab.simulation.clients.transactional import TIMEOUT_MS, Transactional
from mockbroker.lab.simulation.coverage import Coverage
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.disk import Disk
from mockbroker.lab.simulation.history import History
from mockbroker.lab.simulation.invariants import watchers
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.script import VANISH, Fault, MemberScript, Script
from mockbroker.lab.simulation.shell import ObservedRouter, Shell
from mockbroker.lab.simulation.tcp.client_end import SASL_PROTOCOLS
from mockbroker.lab.simulation.tcp.network import ByteNetwork
from mockbroker.lab.simulation.tcp.served import ServedSockets
from mockbroker.lab.simulation.tcp.users import simulated_users
from mockbroker.lab.simulation.trace import Trace
from mockbroker.lab.simulation.upkeep_scheme import upkeep_of
from mockbroker.lab.simulation.watching import Broken, Watchers
from mockbroker.net.sockets import CHECK_INTERVAL
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, ClusterState, Node, Partition

KINDS: Mapping[str, type[Client]] = {
    "eager": ClassicClient,
    "cooperative": ClassicClient,
    "consumer": ConsumerClient,
    "committer": Committer,
    "administrator": Administrator,
    "prober": Prober,
    "describer": Describer,
    "offset-viewer": OffsetViewer,
    "streams": StreamsClient,
    "share": ShareClient,
    "transactional": Transactional,
    "producer": Producer,
    "idempotent-producer": IdempotentProducer,
    "transactional-producer": TransactionalProducer,
    "classic-reader": RecordClassic,
    "consumer-reader": RecordConsumer,
    "classic-processor": ClassicProcessor,
    "consumer-processor": ConsumerProcessor,
    "keeper": Keeper,
    "offset-prober": OffsetProber,
    "transactional-id-prober": TransactionalIdProber,
    "producer-id-prober": ProducerIdProber,
    "throttled-producer": ThrottledProducer,
    "throttled-consumer": ThrottledConsumer,
    "throttled-administrator": ThrottledAdministrator,
    "quota-setter": QuotaSetter,
    "credential-operator": CredentialOperator,
    "config-replacer": ConfigReplacer,
    "feature-operator": FeatureOperator,
    "leader-elector": LeaderElector,
    "replica-mover": ReplicaMover,
    "unregisterer": Unregisterer,
    "marker-writer": MarkerWriter,
    "share-offset-operator": ShareOffsetOperator,
    "share-state-operator": ShareStateOperator,
    "telemetry-client": TelemetryClient,
    "token-operator": TokenOperator,
    "login-operator": LoginOperator,
}
UPKEEP = (Keeper, ExpiryProber, Throttled, QuotaSetter)
SHARE = "share"  # name of the group type without offsets: its groups do not expire
LONGEST_RUN = 900.0  # maximum duration of the phase with faults, virtual seconds
LAST_TIME = nextafter(LONGEST_RUN, 0.0)  # the last time before its end
CHECKED_EVERY = 16  # events between two liveness checks during recovery
MOST_EVENTS = 20  # maximum number of events during recovery, as a multiple of the events with faults
MOST_PARTITIONS = 12  # maximum number of partitions of a topic
DRAIN = 30.0  # virtual seconds in which transactions end, and in which the readers at the end must read everything
NOTICED = 0.3  # fraction of a killed broker's downtime after which the other brokers notice the loss


class World:
    """The brokers and clients of one run of a script.

    Args:
        script: the script.
        coverage: coverage that the run adds to; None to measure no coverage.

    Attributes:
        queue: the event queue, which has the virtual time.
        trace: the trace of the run.
        history: the requests and responses of the clients, for the checkers at the end.
        shell: the simulated process of all brokers.
        clients: the clients of the script.
        admin: the admin client that carries out the operations of an administrator.
        recovery_time: maximum time, in seconds, until all groups are stable after the last fault.
    """

    def __init__(self, script: Script, coverage: Coverage | None = None) -> None:
        self.coverage = coverage
        self.script = script
        self.queue = Queue()
        self.trace = Trace()
        settings = Settings.parse(script.settings)
        self.history = History(upkeep=upkeep_of(script, settings))
        nodes = [Node(number, "127.0.0.1", 9092 + number) for number in range(script.brokers)]
        ids = Dice("ids", script.seed)
        release = RELEASES[script.release]
        happened = (lambda _: None) if coverage is None else coverage.buggified
        buggify = Buggify(script.buggify, Dice("buggified", script.seed), self.queue, happened)
        users = simulated_users() if script.protocol in SASL_PROTOCOLS else None
        disk = None
        if script.sync >= 0:
            disk = Disk(Dice("disk", script.seed), script.sync, buggify.change_data_dir)

        def broker_on(kept: Disk | None) -> Broker:
            cluster = None if kept is None else kept.open(nodes, ids.uuid)
            broker = Broker(nodes, settings, ids.uuid, release, cluster=cluster, users=users)
            broker.slice_size = script.slice_size
            buggify.change_broker(broker)
            return broker

        broker = broker_on(disk)
        for name, partitions in script.topics.items():
            places = broker.cluster.place(partitions, min(script.replicas, script.brokers))
            broker.cluster.create_topic(name, places, script.configs.get(name))
        self.recovery_time = self._recovery_time(settings)
        early = EARLIEST if WAKE_EARLY in script.buggify else 0.0
        checkers = watchers(self.recovery_time, early, small_slices=script.slice_size < SLICE_SIZE)
        self.shell = Shell(
            self.queue,
            self.trace,
            ObservedRouter(broker, Journal(0.0)),
            Watchers([*checkers, *([coverage] if coverage is not None else [])]),
            disk,
            broker_on,
            Dice("slices of time", script.seed),
            buggify,
            (Dice("tcp", script.seed), script.protocol) if script.protocol else None,
        )
        if isinstance(self.shell.network, ByteNetwork):
            self.shell.network.greets = script.greets
        for rule in script.rules:
            self.shell.add_rule(parse_rule(rule, HANDLERS))
        self.clients = [self._client(KINDS[each.kind], each) for each in script.members]
        last = max((member.number for member in script.members), default=-1)
        self.admin = self._client(Admin, MemberScript(number=last + 1, kind="admin", group="", topics=()))
        self._by_number = {client.script.number: client for client in self.clients}
        self._chance = Dice("faults", script.seed)
        self._ending = False

    def _client(self, kind: type[Client], script: MemberScript, *of_life: int) -> Client:
        dice = Dice("client", self.script.seed, script.number, *of_life)
        return kind(script, dice, self.queue, self.shell.network, self.trace, self._cluster, self.history)

    def _cluster(self) -> ClusterState:
        return self.shell.broker.cluster

    def _recovery_time(self, settings: Settings) -> float:
        """Return the maximum time, in seconds, that a group may take to become stable after the last fault.

        This time is long enough for crashed members to expire and for two rebalances.

        ``settings``: settings of the brokers.
        """
        members = self.script.members
        session = max([m.session for m in members] + [settings.group_consumer_session_timeout_ms / 1000])
        rebalance = max([m.rebalance for m in members], default=0.0)
        delay = settings.group_initial_rebalance_delay_ms / 1000
        if any(member.kind == "streams" for member in members):
            session = max(session, settings.group_streams_session_timeout_ms / 1000)
            delay = max(delay, settings.group_streams_initial_rebalance_delay_ms / 1000)
        load = settings.mockbroker_coordinator_load_ms / 1000
        return 2 * (rebalance + session) + delay + load + 2 * REQUEST_TIMEOUT

    def run(self) -> None:
        """Run all phases. Raises: Broken if an invariant is violated."""
        self.shell.begin()
        self.admin.start()
        for client in self.clients:
            self.queue.at(client.script.starts, self._come_back, client)
        self._go_wrong()
        self._heal()
        if any(isinstance(client, (Producer, RecordReader, Operator, *UPKEEP)) for client in self.clients):
            self._check_history()
        self._empty()

    # --- phase 1: safety, with faults ---

    def _go_wrong(self) -> None:
        faults = list(reversed(self.script.faults))
        queue, trace, events = self.queue, self.trace, self.script.events
        while trace.events < events and queue.next < LONGEST_RUN:
            while faults and faults[-1].at <= trace.events:
                self._do(faults.pop())
            queue.run_events(trace, min(events, faults[-1].at) if faults else events, LAST_TIME)

    def _do(self, fault: Fault) -> None:
        self.trace.add(self.queue.now, f"fault {fault}")
        if self.coverage is not None:
            self.coverage.began(fault.kind)
        if fault.kind in self._on_members():
            client = self._by_number.get(fault.target)
            if client is not None:
                self._on_members()[fault.kind](client, fault.value)
        else:
            getattr(self, "_" + fault.kind.replace("-", "_"))(fault)

    def _on_members(self) -> Mapping[str, Callable[[Client, float], None]]:
        return {
            "lose-request": self._lose_request,
            "lose-answer": self._lose_answer,
            "cut": self._cut,
            "clog": self._clog,
            "slow": self._slow,
            "pause": self._pause,
            "stop-polling": self._stop_polling,
            "crash": self._crash,
            "leave": self._leave,
            "subscribe": self._subscribe,
            "retire": self._retire,
            "switch": self._switch,
            VANISH: self._vanish,
        }

    def _lose_request(self, client: Client, value: float) -> None:
        client.link.lose = "request"

    def _lose_answer(self, client: Client, value: float) -> None:
        client.link.lose = "answer"

    def _cut(self, client: Client, value: float) -> None:
        for connection in (client.bootstrap, client.coordinator):
            if connection is not None:
                self.shell.network.break_off(connection)

    def _clog(self, client: Client, value: float) -> None:
        if self._ending:  # swizzle clogs links some time after it begins
            return
        client.link.clogged = True
        self.queue.after(value, self.shell.network.free, client.link)

    def _slow(self, client: Client, value: float) -> None:
        client.slow = value

    def _pause(self, client: Client, value: float) -> None:
        client.paused_until = max(client.paused_until, self.queue.now + value)

    def _stop_polling(self, client: Client, value: float) -> None:
        if isinstance(client, Reader) and client.up:
            client.polls_at = self.queue.now + value

    def _crash(self, client: Client, value: float) -> None:
        client.crash()
        self.queue.after(value, self._come_back, client)

    def _vanish(self, client: Client, value: float) -> None:
        network = self.shell.network
        assert isinstance(network, ByteNetwork)
        network.vanish(client.link)
        self._crash(client, value)

    def _leave(self, client: Client, value: float) -> None:
        if client.up:
            client.leave()
        self.queue.after(1.0 + value, self._come_back, client)

    def _switch(self, client: Client, value: float) -> None:
        """Stop a member, and restart it with its other group protocol, as a rolling restart that changes
        ``group.protocol`` does.

        Do nothing if the member never changes its protocol.

        Args:
            client: the member.
            value: additional seconds between stop and restart.
        """
        if not client.script.other:
            return
        if client.up:
            client.leave()
            client.stop()
        script = replace(client.script, kind=client.script.other, other=client.script.kind)
        successor = self._client(KINDS[script.kind], script, client.life + 1)
        successor.life = client.life
        self.clients[self.clients.index(client)] = self._by_number[script.number] = successor
        self.queue.after(1.0 + value, self._come_back, successor)

    def _come_back(self, client: Client) -> None:
        replaced = self._by_number.get(client.script.number) is not client  # by a process with the other protocol
        if not self._ending and not replaced:
            client.start()

    def _subscribe(self, client: Client, value: float) -> None:
        if isinstance(client, ClassicClient) and client.script.instance is not None:
            return  # Kafka does not rebalance for a returning static member with another subscription
        if client.script.regex:
            return
        if isinstance(client, (ClassicClient, ConsumerClient)) and client.up:
            names = sorted(self.script.topics)
            client.subscribe(tuple(name for n, name in enumerate(names) if int(value * 16) >> n & 1) or (names[0],))

    def _retire(self, client: Client, value: float) -> None:
        admin = self.admin
        assert isinstance(admin, Admin)
        if isinstance(client, ClassicClient) and client.up and client.member_id:
            node = self.shell.broker.coordinator(client.script.group)
            admin.retire(node, client.script.group, client.member_id, client.script.instance)

    def _stall(self, fault: Fault) -> None:
        self.shell.stall(fault.value)

    def _jump(self, fault: Fault) -> None:
        self.history.jumps.append((self.queue.now, fault.value))
        self.shell.jump(fault.value)

    def _power(self, fault: Fault) -> None:
        self.shell.crash(fault.value)

    def _fsync(self, fault: Fault) -> None:
        if self.shell.disk is not None:
            self.shell.disk.fails = True

    def _kill_broker(self, fault: Fault) -> None:
        node, broker = fault.target, self.shell.broker
        if not self.shell.down and node in broker.cluster.nodes and node not in self.shell.away:
            self.shell.take_away(node)
            self.shell.change(failover.kill_broker(broker, node, self.shell.now, fault.value * NOTICED))
            self.queue.after(fault.value, self._broker_back, node)

    def _stop_broker(self, fault: Fault) -> None:
        node, broker = fault.target, self.shell.broker
        if not self.shell.down and node in broker.cluster.nodes and node not in self.shell.away:
            self.shell.change(failover.stop_broker(broker, node, self.shell.now))
            self.shell.take_away(node)
            self.queue.after(fault.value, self._broker_back, node)

    def _broker_back(self, node: int) -> None:
        if not self.shell.down and node in self.shell.away:
            del self.shell.away[node]
            self.trace.add(self.shell.now, f"broker {node} is back")
            self.shell.change(failover.start_broker(self.shell.broker, node, self.shell.now))

    def _move(self, fault: Fault) -> None:
        self._move_leader(self._cluster().topics[OFFSETS_TOPIC].partition_of(self._some_group()))

    def _lead(self, fault: Fault) -> None:
        topics = self._cluster().topics
        self._move_leader(
            self._chance.pick([each for name in sorted(self.script.topics) for each in topics[name].partitions])
        )

    def _move_leader(self, partition: Partition) -> None:
        """Move the leadership of a partition to another in-sync replica. Do nothing without another in-sync replica."""
        others = [node for node in self._cluster().electable(partition) if node not in self.shell.away]
        others = [node for node in others if node != partition.leader]
        if others and partition.leader != NO_LEADER and not self.shell.down:
            node = self._chance.pick(others)
            self.shell.change(failover.move_leader(self.shell.broker, partition, node, self.shell.now))

    def _stale(self, fault: Fault) -> None:
        if not self.shell.down:
            broker = self.shell.broker
            broker.frozen_metadata[fault.target] = broker.cluster.snapshot()
            self.queue.after(fault.value, self._fresh, fault.target)

    def _fresh(self, node: int) -> None:
        self.shell.broker.frozen_metadata.pop(node, None)

    def _swizzle(self, fault: Fault) -> None:
        """Clog the network links of random clients one by one, and unclog them in another random order (swizzle-clog).

        While a link is clogged, its messages are held. ``fault``: the fault; its value is the duration in seconds.
        """
        some = self._chance.some(self.clients) if self.clients else []
        for client in some:
            self.queue.after(self._chance.between(0.0, fault.value / 2), self._clog, client, LONGEST_RUN)
        for client in self._chance.shuffled(some):
            when = self._chance.between(fault.value / 2, fault.value)
            self.queue.after(when, self.shell.network.free, client.link)

    def _grow(self, fault: Fault) -> None:
        admin = self.admin
        assert isinstance(admin, Admin)
        name = self._chance.pick(sorted(self.script.topics))
        there = len(self._cluster().topics[name].partitions)
        if there < MOST_PARTITIONS:
            admin.grow(name, there + 1)

    def _delete_group(self, fault: Fault) -> None:
        admin = self.admin
        assert isinstance(admin, Admin)
        group = self._some_group()
        admin.delete_group(self.shell.broker.coordinator(group), group)

    def _delete_offsets(self, fault: Fault) -> None:
        admin = self.admin
        assert isinstance(admin, Admin)
        group, topic = self._some_group(), self._chance.pick(sorted(self.script.topics))
        admin.delete_offsets(self.shell.broker.coordinator(group), group, topic, [0, 1])

    def _look(self, fault: Fault) -> None:
        admin = self.admin
        assert isinstance(admin, Admin)
        names = list(self.shell.broker.groups)
        admin.list_groups(fault.target, names)
        consumers = [name for name in names if self.shell.broker.groups.get_as(name, ConsumerGroup)]
        if consumers and self.shell.broker.serves_consumer_protocol:
            admin.describe_consumer_groups(fault.target, consumers)

    def _some_group(self) -> str:
        names = sorted({member.group for member in self.script.members})
        return self._chance.pick(names) if names else "g0"

    # --- phase 2: liveness, without faults ---

    def _heal(self) -> None:
        self.trace.add(self.queue.now, "everything heals")
        self._ending = True
        self.shell.end_stall()
        if self.shell.disk is not None:
            self.shell.disk.fails = False
        self.shell.restart()
        self.shell.broker.frozen_metadata.clear()
        for node in list(self.shell.away):
            self._broker_back(node)
        self.shell.remove_rules()
        for budget in (self.shell.pump.requests, self.shell.pump.responses):
            budget.limit = NO_LIMIT  # a large Fetch response closes its connection otherwise
        late = [client.paused_until for client in self.clients]
        readers = [client for client in self.clients if isinstance(client, Reader) and client.up]
        late += [client.polls_at for client in readers]  # work postponed until the next poll
        for client in self.clients:
            client.link.lose = ""
            client.slow = 0.0
            if isinstance(client, Reader) and client.up:
                client.polls_at = 0.0
            self.shell.network.free(client.link)
            if not client.up and not client.fatal:
                client.start()
            if isinstance(client, ClassicClient) and client.up and client.script.other:
                client.enforce_rebalance()
        self._wait_for_records()
        until = max([self.queue.now, *late]) + self.recovery_time
        begun = self.trace.events
        most = begun + MOST_EVENTS * max(self.script.events, 1_000)
        why = liveness.why_not(self.shell.broker, self.clients)
        while why and self.queue.next <= until and self.trace.events < most:
            self.queue.run_events(self.trace, self.trace.events + CHECKED_EVERY, until)
            why = liveness.why_not(self.shell.broker, self.clients)
        if why and self.queue.next > until:
            raise Broken(liveness.NAME, f"no progress {self.recovery_time:g} s after the last fault ended: {why}")
        if why:
            events = self.trace.events - begun
            raise Broken(liveness.NAME, f"no progress in {events:,} events after the last fault: {why}")
        self.shell.watchers.notify("healed", self.shell.broker, self.shell.now)
        self.shell.watchers.notify("inspect", self.shell.broker, self.shell.now)

    def _wait_for_records(self) -> None:
        """Set fetch.min.bytes of all running consumers to 1.

        Then the broker delays the response to a Fetch until there are records.

        With fetch.min.bytes=0, a consumer sends hundreds of requests a second. The recovery phase would then exceed its
        maximum number of events.
        """
        for client in self.clients:
            if isinstance(client, RecordReader) and client.up:
                client.fetcher.min_bytes = 1

    # --- the records: what clients have read and written ---

    def _check_history(self) -> None:
        """Stop all producers, read all records, and run the checkers on the history.

        Raises: Broken if an invariant is violated.
        """
        self.trace.add(self.queue.now, "all producers stop")
        for client in self.clients:
            if isinstance(client, (Producer, Processor, ShareClient, Administrator, Prober, Operator, *UPKEEP)):
                client.stop()
            elif isinstance(client, RecordReader) and client.up:
                client.fetcher.max_bytes = 1 << 20
        self._wait(DRAIN)  # transactions time out
        last = max((client.script.number for client in (*self.clients, self.admin)), default=0)
        topics = tuple(sorted(self.script.topics.keys() - self.script.configs.keys()))
        kept = tuple(sorted(name for name, configs in self.script.configs.items() if configs))
        kinds: list[tuple[type[Client], tuple[str, ...]]] = []
        kinds += [(FinalReader, topics), (FinalCommittedReader, topics)] if topics else []
        kinds += [(FinalKeeper, kept)] if kept else []
        readers = [
            self._client(kind, MemberScript(number=last + number, kind="final", group="", topics=topics))
            for number, (kind, topics) in enumerate(kinds, 1)
        ]
        for reader in readers:
            reader.start()
        until = self.queue.now + DRAIN
        while (unread := self._unread(readers)) and self.queue.next <= until:
            self.queue.step()
        for reader in readers:
            reader.stop()
        if unread is not None:
            raise Broken("I35", f"{unread()}, {DRAIN:g} s after all transactions have ended")
        log = FinalLog(self.history)
        for name, check in CHECKERS.items():
            if found := check(log):
                raise Broken(name, found)

    def _unread(self, readers: Sequence[Client]) -> Callable[[], str] | None:
        """Return a function that describes a reader that has not read all records at the end of the run; None if all
        readers have.

        The clients that still read records must have read all records of their partitions, too.

        ``readers``: the clients that were started at the end of the run to read all records.
        """
        for reader in readers:
            if isinstance(reader, FinalKeeper) and not reader.done:
                return lambda: "a reader of the logs with a cleanup policy has not read all of them"
            if isinstance(reader, FinalReader):
                positions, ends = reader.positions, reader.ends
                if not reader.done:
                    return lambda: f"a reader of all records is at {positions}, but the logs end at {ends}"
                if self.history.ends.get(reader.isolation) is not ends:
                    return lambda: f"a reader of all records has not found the ends of all partitions, only {ends}"
        for client in self.clients:
            if isinstance(client, RecordReader) and client.up:
                unread = self._unread_by(client)
                if unread is not None:
                    return unread
        return None

    def _unread_by(self, client: RecordReader) -> Callable[[], str] | None:
        """Return a function that describes a partition of which a client has not read all records; None if it has read
        all records of its partitions.
        """
        ends, positions = self.history.ends[client.isolation], client.positions
        for place in sorted(client.owned):
            at = positions.get(place, -1)
            end = ends.get(place, 0)
            if at < end:
                return lambda: f"{client.name} is at {at} of {named(place)}, but it ends at {end}"
        return None

    # --- phase 3: no client is left ---

    def _empty(self) -> None:
        self.trace.add(self.queue.now, "all clients stop")
        for client in (*self.clients, self.admin):
            client.stop()
        self._wait(2 * self.recovery_time + NEW_MEMBER_TIMEOUT + 2 * TIMEOUT_MS / 1000 + 10.0)
        if self.shell.sockets is not None:
            self._end_dead_connections(self.shell.sockets)
        self.shell.watchers.notify("emptied", self.shell.broker, self.shell.now)
        settings = self.shell.broker.settings
        self.shell.jump(settings.offsets_retention_minutes * 60.0)
        self._wait(2 * settings.offsets_retention_check_interval_ms / 1000)
        self.shell.watchers.notify("inspect", self.shell.broker, self.shell.now)
        if left := sorted(name for name, group in self.shell.broker.groups.items() if group.type_name != SHARE):
            raise Broken("I13", f"group {left[0]} still exists after its last offset has expired")

    def _end_dead_connections(self, sockets: ServedSockets) -> None:
        """Wait until the broker must have closed the idle connections of clients whose machine has vanished, and check
        that it has.

        A connection with a request that is never answered is never idle: this method breaks it, as the keepalive of TCP
        does. When a connection ends, the broker also removes the share sessions that were created on it.

        ``sockets``: the broker's connections.

        Raises: Broken if a connection without a pending request is still open, or if bytes are counted as buffered
        without a connection.
        """
        self._wait(self.shell.broker.settings.connections_max_idle_ms / 1000 + 2 * CHECK_INTERVAL)
        sockets.check_closed()
        assert isinstance(self.shell.network, ByteNetwork)
        self.shell.network.end_dead_connections()
        self._wait(CHECK_INTERVAL)

    def _wait(self, seconds: float) -> None:
        until = self.queue.now + seconds
        self.queue.run_to(until)
