"""Stories with a planted problem, and similar stories without it, for each detector of findings.

A number selects a story. The stories of the first half of the numbers are used to choose thresholds, and those of the
second half to test them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tools.story import GROUP, TOPIC, Classic, Script, Story

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as TxnTopic
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.records import Record, build_batch

Made = Callable[[int], Story]
HELLO = ApiVersionsRequest(client_software_name="scripted", client_software_version="1.0")


@dataclass(frozen=True)
class Scenario:
    """The stories of a detector. ``planted``, ``innocent``: functions that return the story with a number."""

    detector: str
    planted: Made
    innocent: Made


def group(number: int, members: int = 3, *, modern: bool | None = None, **how: Any) -> tuple[Story, list[Any]]:
    """Return a story and the members of its group, by default a KIP-848 group for every third number."""
    config = how.pop("config", {})
    story = Story(number, **config)
    is_modern = number % 3 == 2 if modern is None else modern
    made = [story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=is_modern, **how) for n in range(members)]
    story.producer()
    return story, made


def restart(story: Story, member: Any, when: float, away: float, **how: Any) -> None:
    """Let a member leave, and a new member of the same client join after a time. ``how``: see ``Story.member``."""
    members = story.restarted.setdefault(member.name, [member])
    story.at(when, members[-1].leave)
    members.append(story.member(member.name, when + away, modern=not isinstance(member, Classic), **how))


# --- rebalances -----------------------------------------------------------------------------------------------------


def storm(number: int) -> Story:
    """One member restarts again and again; or a new member replaces each member in turn."""
    story, members = group(number, 2 + number % 3)
    if number % 2:
        every, times = story.rng.uniform(3, 9), story.rng.randint(4, 8)
        for turn in range(times):
            restart(story, members[0], 12 + turn * every, 1.1)
    else:
        for turn in range(story.rng.randint(6, 9)):
            name = f"worker-{turn % len(members)}"
            when = 12 + turn * story.rng.uniform(4, 6)
            crowd = members[turn % len(members)]
            story.at(when, crowd.leave)
            members[turn % len(members)] = story.member(name, when + 1.3, modern=not isinstance(crowd, Classic))
    story.run(75)
    return story


def growth(number: int) -> Story:
    """Members join one after the other in a deployment, and one restarts; or the group is shut down."""
    story, members = group(number, 3)
    for n in range(3, 3 + story.rng.randint(3, 6)):
        members.append(story.member(f"worker-{n}", 8.0 + n * 3.3, modern=not isinstance(members[0], Classic)))
    restart(story, members[0], 45, 2.0)
    if number % 2:
        for n, member in enumerate(members[1:]):
            story.at(60 + n * 2.0, member.leave)
    story.run(85)
    return story


def costly(number: int) -> Story:
    """One member is slow to rejoin, so that all others stop; or a member is killed."""
    story, members = group(number, 4, modern=False, session=story_session(number))
    if number % 2:
        story.at(20, lambda: members[1].freeze(1e6))
    else:
        members[2].rejoins_after = story.rng.uniform(2.5, 9)
        story.member("worker-9", 20)
    story.run(60)
    return story


def story_session(number: int) -> float:
    return (6.0, 10.0, 30.0)[number % 3]


def cheap(number: int) -> Story:
    """Rebalances end within a second."""
    quick = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 100}
    story, members = group(number, 4, heartbeat=0.5, config=quick)
    for member in members:
        if isinstance(member, Classic):
            member.rejoins_after = story.rng.uniform(0.01, 0.4)
    story.member("worker-9", 20, modern=not isinstance(members[0], Classic))
    story.at(35, members[1].leave)
    story.run(60)
    return story


def unread(number: int) -> Story:
    """A member is killed: its partitions have no reader until the session has timed out, or joins take long."""
    story, members = group(number, 3, session=(8.0, 12.0)[number % 2])
    if number % 3 == 1:
        members[1].rejoins_after = story.rng.uniform(7, 14)
        story.member("worker-9", 20)
    else:
        story.at(20 + story.rng.random(), lambda: members[1].freeze(1e6))
    story.run(100)
    return story


def handed_over(number: int) -> Story:
    """Members leave and join properly."""
    story, members = group(number, 3)
    story.at(20, members[1].leave)
    story.member("worker-9", 30 + story.rng.random(), modern=not isinstance(members[0], Classic))
    for member in members:
        if isinstance(member, Classic):
            member.rejoins_after = story.rng.uniform(0.1, 2.5)
    story.run(60)
    return story


def flapping(number: int) -> Story:
    """One member leaves and joins again several times; or the group evicts it."""
    story, members = group(number, 3)
    every = story.rng.uniform(12, 40)
    evict: dict[str, Any] = {"occurrence": {"times": 1}, "evict": True}
    last = members[1]
    for turn in range(story.rng.randint(3, 6)):
        when = 12 + turn * every
        if number % 2 and isinstance(last, Classic):
            story.at(when, lambda: story.rule("Heartbeat", match={"client_id": "worker-1"}, **evict))
        else:
            story.at(when, last.leave)
            last = story.member("worker-1", when + story.rng.uniform(1, 8), modern=not isinstance(last, Classic))
    story.run(260)
    return story


def rolling(number: int) -> Story:
    """Each member restarts once, or twice, as in a rolling deployment."""
    story, members = group(number, 4)
    for turn in range(1 + number % 2):
        for n, member in enumerate(list(members)):
            when = 12 + (turn * len(members) + n) * 14.0
            story.at(when, member.leave)
            members[n] = story.member(member.name, when + 4.0, modern=not isinstance(member, Classic))
    story.run(150)
    return story


def slow_join(number: int) -> Story:
    """One member rejoins late; in a KIP-848 group all are slow, because the broker chooses who revokes partitions."""
    story, members = group(number, 4)
    late = story.rng.uniform(3.5, 12)
    for member in members:
        if isinstance(member, Classic):
            member.rejoins_after = late if member is members[2] else 0.0
        else:
            member.timing = replace(member.timing, slow=late)
    story.member("worker-9", 20, modern=not isinstance(members[0], Classic))
    story.run(60)
    return story


def prompt_join(number: int) -> Story:
    """Each member rejoins within two seconds, as with heartbeats every three seconds."""
    story, members = group(number, 4)
    for member in members:
        if isinstance(member, Classic):
            member.rejoins_after = story.rng.uniform(0.2, 2.0)
    story.member("worker-9", 20, modern=not isinstance(members[0], Classic))
    story.at(40, members[1].leave)
    story.run(60)
    return story


def slow_leader(number: int) -> Story:
    story, members = group(number, 3, modern=False)
    for member in members:
        member.assigns_for = story.rng.uniform(1.2, 6)
    story.member("worker-9", 20)
    story.run(50)
    return story


def quick_leader(number: int) -> Story:
    """The leader assigns quickly, but members may rejoin slowly."""
    story, members = group(number, 3, modern=False)
    for member in members:
        member.assigns_for = story.rng.uniform(0.0, 0.6)
        member.rejoins_after = story.rng.uniform(0.0, 4.0)
    story.member("worker-9", 20)
    story.run(50)
    return story


# --- members --------------------------------------------------------------------------------------------------------


def killed(number: int) -> Story:
    story, members = group(number, 3, session=story_session(number))
    story.at(20 + story.rng.random() * 5, lambda: members[1].freeze(1e6))
    story.run(110)
    return story


def left(number: int) -> Story:
    """Members leave, restart, or are frozen for part of their session timeout."""
    story, members = group(number, 3, session=story_session(number))
    story.at(20, members[1].leave)
    restart(story, members[2], 30, 3.0)
    story.at(36, lambda: members[0].freeze(story_session(number) * 0.4))
    story.run(75)
    return story


def static_lost(number: int) -> Story:
    story, _ = group(number, 2, modern=False, session=story_session(number))
    gone = story.member("pinned", 2.2, instance="pinned-1", session=story_session(number))
    story.at(20 + story.rng.random() * 4, gone.stop)
    if number % 2:
        story.member("pinned", 85, instance="pinned-1", session=story_session(number))
    story.run(100)
    return story


def static_back(number: int) -> Story:
    """A static member returns in time; a dynamic one is killed."""
    story, members = group(number, 2, modern=False, session=story_session(number))
    gone = story.member("pinned", 2.2, instance="pinned-1", session=story_session(number))
    story.at(20, gone.stop)
    story.member(
        "pinned",
        20 + story_session(number) * story.rng.uniform(0.2, 0.7),
        instance="pinned-1",
        session=story_session(number),
    )
    if number % 2:
        story.at(50, lambda: members[1].freeze(1e6))
    story.run(100)
    return story


def near_miss(number: int) -> Story:
    """A member does nothing for most of its session timeout."""
    story, members = group(number, 3, modern=False, session=story_session(number))
    pause = story_session(number) * story.rng.uniform(0.75, 0.93)
    story.at(20 + story.rng.random(), lambda: freeze_after_beat(members[1], pause))
    story.run(75)
    return story


def freeze_after_beat(member: Any, pause: float) -> None:
    """Freeze a member so that its silence, from its last heartbeat to the next, is as long as ``pause``."""
    member.freeze(max(pause - member.timing.heartbeat, pause * 0.8))


def short_pause(number: int) -> Story:
    """A member pauses for at most 0.3 of its session timeout; then members are slow to rejoin, without heartbeats."""
    story, members = group(number, 3, modern=False, session=story_session(number))
    story.at(20, lambda: members[1].freeze(story_session(number) * story.rng.uniform(0.05, 0.3)))
    members[2].rejoins_after = story.rng.uniform(0, 2.0)
    story.member("worker-9", 40)
    story.run(75)
    return story


def jitter(number: int) -> Story:
    story, members = group(number, 3, heartbeat=2.0, session=15.0)
    rng, share = story.rng, story.rng.uniform(0.25, 0.5)
    members[1].beat_noise = lambda: rng.uniform(2.5, 6.0) if rng.random() < share else 0.0
    story.run(120)
    return story


def regular(number: int) -> Story:
    """Heartbeats vary as on a busy machine, and a member pauses once."""
    story, members = group(number, 3, heartbeat=2.0, session=15.0)
    rng = story.rng
    for member in members:
        member.beat_noise = lambda: rng.uniform(0.0, 0.4)
    story.at(40, lambda: members[0].freeze(4.0))
    story.run(120)
    return story


def slow_poll(number: int) -> Story:
    limit = (20.0, 30.0, 45.0)[number % 3]
    story, members = group(number, 3, modern=False, rebalance=limit)
    if number % 2:

        def leave() -> None:
            members[1].leave_reason = "consumer poll timeout has expired."
            members[1].leave()

        story.at(20, lambda: members[1].stall(1e6))
        story.at(20 + limit, leave)
    else:
        story.at(20, lambda: members[1].stall(limit * story.rng.uniform(0.88, 0.98)))
    story.run(90)
    return story


def polls(number: int) -> Story:
    """A member does not poll for up to 0.55 of the interval; or another member leaves when it is closed."""
    limit = (20.0, 30.0, 45.0)[number % 3]
    story, members = group(number, 3, modern=False, rebalance=limit)
    for n in range(2):
        story.at(15 + n * 30, lambda: members[1].stall(limit * story.rng.uniform(0.2, 0.55)))
    if number % 2:
        members[2].leave_reason = "the consumer is being closed"
        story.at(50, members[2].leave)
    story.run(90)
    return story


# --- commits --------------------------------------------------------------------------------------------------------


def commit_gap(number: int) -> Story:
    """A member reads on but does not commit, for a time or until the end of the story."""
    story, members = group(number, 3)
    begin, lasts = 30, story.rng.uniform(70, 120)

    def stop() -> None:
        members[1].commits_from = begin + lasts

    story.at(begin, stop)
    story.run(190 if number % 2 else begin + lasts - 2)
    return story


def commits_rarely(number: int) -> Story:
    """Members commit every 20 to 40 s; or no records arrive for a long time."""
    story = Story(number)
    modern = number % 3 == 2
    every = story.rng.uniform(20, 40)
    for n in range(3):
        story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=modern, commits_every=every)
    if number % 2:
        story.producer(until=20)
        story.play(130, story._produce(2.0, TOPIC, 160, "shop", 1.0))
    else:
        story.producer()
    story.run(170)
    return story


def stale(number: int) -> Story:
    """A member commits with an old generation, or after it was evicted."""
    story, members = group(number, 3)
    member = members[1]

    def commit(request: OffsetCommitRequest) -> Script:
        yield member.line, request, member.commit_version

    def late() -> None:
        story.play(story.now, commit(member.commit_request(shares[-1], generation=generations[-1])))

    shares: list[list[int]] = []
    generations: list[int] = []

    def remember() -> None:
        shares.append(list(member.owned))
        generations.append(member.generation)

    story.at(18, remember)
    if number % 2:
        story.at(20, lambda: member.freeze(1e6))
        for turn in range(story.rng.randint(1, 3)):
            story.at(75 + turn, late)
    else:
        story.at(20, member.leave)
        for turn in range(story.rng.randint(1, 3)):
            story.at(22 + turn, late)
    story.run(90)
    return story


def proper_commits(number: int) -> Story:
    """Members commit during rebalances; some commits fail with REBALANCE_IN_PROGRESS or retriable errors."""
    story, members = group(number, 3)
    error = ("REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")[number % 3]
    story.rule("OffsetCommit", occurrence={"skip": 4, "times": 2}, error=error)
    restart(story, members[1], 30, 3.0)
    story.run(70)
    return story


def transactions(
    story: Story,
    name: str,
    outcomes: list[bool | None],
    *,
    at: float = 10.0,
    client: str = "mover",
    group_id: str | None = GROUP,
    timeout: float = 60.0,
    open_for: float = 0.5,
    version: int = 2,
) -> None:
    """Start a producer that copies records in transactions. ``outcomes``: commit, abort, or None to leave it open."""
    story.play(at, transactional(story, name, outcomes, client, group_id, timeout, open_for, version))


def transactional(
    story: Story,
    name: str,
    outcomes: list[bool | None],
    client: str,
    group_id: str | None,
    timeout: float,
    open_for: float,
    version: int,
    closes: bool = False,
) -> Script:
    line = story.connect(client)
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=round(timeout * 1000))
    answer = yield line, init, 4
    who = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    for turn, outcome in enumerate(outcomes):
        topics = [TxnTopic(name=TOPIC, partitions=[0])]
        yield (
            line,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=who["producer_id"],
                v3_and_below_producer_epoch=who["producer_epoch"],
                v3_and_below_topics=topics,
            ),
            3,
        )
        batch = build_batch([Record(value=b"copy")], **who, base_sequence=turn, transactional=True)
        data = [ProduceRequest.Topic.Partition(index=0, records=bytes(batch))]
        topic_data = [ProduceRequest.Topic(name=TOPIC, partition_data=data)]
        yield line, ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=topic_data), 9
        if group_id is not None:
            yield line, AddOffsetsToTxnRequest(transactional_id=name, group_id=group_id, **who), 3
            place = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=turn + 1)
            request = TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group_id,
                **who,
                topics=[TxnOffsetCommitRequest.Topic(name=TOPIC, partitions=[place])],
            )
            yield line, request, 3
        yield open_for
        if outcome is None:
            break
        yield line, EndTxnRequest(transactional_id=name, **who, committed=outcome), 3
        yield 1.0
    if closes:
        line.close()
    else:
        while True:  # the client keeps running, as real clients do
            yield 20.0
            yield line, MetadataRequest(topics=[]), 9


def aborted(number: int) -> Story:
    """A client consumes, produces and commits in transactions, some of which are aborted."""
    story, _ = group(number, 2, commits_every=0.0)
    outcomes: list[bool | None] = [story.rng.random() < 0.6 for _ in range(8)]
    outcomes[story.rng.randrange(8)] = False
    transactions(story, "mover-1", outcomes)
    story.run(50)
    return story


def none_aborted(number: int) -> Story:
    """All commits take effect; transactions without offsets are aborted."""
    story, _ = group(number, 2)
    transactions(story, "mover-1", [True] * story.rng.randint(3, 8))
    transactions(story, "mover-2", [False, True, False], group_id=None, client="other")
    story.run(50)
    return story


# --- partitions -----------------------------------------------------------------------------------------------------


def stuck(number: int) -> Story:
    """The committed offset of one partition does not advance any more."""
    story, members = group(number, 2)
    index = story.rng.randrange(6)

    def hold() -> None:
        for member in members:
            member.held.add(index)

    begin = 20
    story.at(begin, hold)
    story.run(begin + story.rng.uniform(80, 130))
    return story


def not_stuck(number: int) -> Story:
    """One partition gets no new records; another one is not committed for half a minute."""
    story = Story(number)
    members = [story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=number % 3 == 2) for n in range(2)]
    quiet = story.rng.randrange(6)
    story.producer(lambda index: 0.0 if index == quiet and story.now > 20 else 2.0)

    def hold(index: int, is_held: bool) -> None:
        for member in members:
            (member.held.add if is_held else member.held.discard)(index)

    other = (quiet + 1) % 6
    lasts = story.rng.uniform(20, 40)
    story.at(30, lambda: hold(other, True))
    story.at(30 + lasts, lambda: hold(other, False))
    story.run(130)
    return story


def lagging(number: int) -> Story:
    """Records arrive faster than the group processes them."""
    story = Story(number)
    rate = story.rng.uniform(40, 120)
    for n in range(2):
        story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=number % 3 == 2, pace=rate * story.rng.uniform(0.2, 0.6))
    story.producer(rate)
    story.run(110)
    return story


def keeps_up(number: int) -> Story:
    """The lag rises and falls; or a group works off a backlog."""
    story = Story(number)
    if number % 2:
        story.producer(lambda _: 150.0 if story.now < 30 else 10.0)
        start = 31.0
    else:
        story.producer(lambda _: 60.0 if int(story.now) // 20 % 2 else 5.0)
        start = 1.0
    for n in range(2):
        story.member(f"worker-{n}", start + 0.31 * n, modern=number % 3 == 2, pace=story.rng.uniform(100, 160))
    story.run(110)
    return story


def hot(number: int) -> Story:
    story = Story(number)
    index = story.rng.randrange(6)
    factor = story.rng.uniform(6, 20)
    for n in range(2):
        story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=number % 3 == 2)
    story.producer(lambda one: 3.0 * factor if one == index else 3.0)
    story.run(70)
    return story


def even(number: int) -> Story:
    """Partitions differ by a factor of up to 2.5; or a hot partition has few records."""
    story = Story(number)
    rates = [story.rng.uniform(4, 10) for _ in range(6)]
    if number % 2:
        rates = [0.1, 0.1, 0.1, 0.1, 0.1, 2.0]
    for n in range(2):
        story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=number % 3 == 2)
    story.producer(lambda one: rates[one])
    story.run(70)
    return story


# --- coordinator ----------------------------------------------------------------------------------------------------


def moved(number: int) -> Story:
    story, _ = group(number, 3, modern=False, config={"brokers": 2})
    story.at(20 + story.rng.random() * 5, lambda: story.move_coordinator(GROUP))
    if number % 2:
        story.at(45, lambda: story.move_coordinator(GROUP))
    story.run(70)
    return story


def stays(number: int) -> Story:
    """The coordinator stays, although clients look it up again, connections are cut and another coordinator moves."""
    story, members = group(number, 3, modern=False, config={"brokers": 2})
    story.rule("Heartbeat", occurrence={"skip": 5, "times": 2}, disconnect="before")
    other = next(
        f"other-{n}"
        for n in range(99)
        if story.broker.offsets_partition(f"other-{n}") != story.broker.offsets_partition(GROUP)
    )
    story.at(25, lambda: story.move_coordinator(other))
    restart(story, members[1], 40, 3.0)
    story.run(70)
    return story


def loading(number: int) -> Story:
    story, _ = group(number, 3, modern=False)
    error = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")[number % 2]
    lasts = story.rng.uniform(2.5, 9)
    names: list[str] = []
    story.at(20, lambda: names.append(story.rule(["Heartbeat", "JoinGroup", "SyncGroup", "OffsetCommit"], error=error)))
    story.at(20 + lasts, lambda: story.drop(names[0]))
    story.run(60)
    return story


def loaded(number: int) -> Story:
    """A single request reaches a coordinator that is loading."""
    story, members = group(number, 3, modern=False)
    story.rule("Heartbeat", occurrence={"skip": 6, "times": 1 + number % 2}, error="COORDINATOR_LOAD_IN_PROGRESS")
    restart(story, members[1], 30, 3.0)
    story.run(60)
    return story


# --- agreement ------------------------------------------------------------------------------------------------------


def two_applications(number: int) -> Story:
    story = Story(number, topics={TOPIC: 6, "refunds": 3})
    modern = number % 3 == 2
    for n in range(2):
        story.member(f"worker-{n}", 1.0 + 0.31 * n, modern=modern)
    if modern:
        story.member("stranger", 10, modern=True, topic="refunds")
    else:
        story.member("stranger", 10, subscribes=[[TOPIC, "refunds"], ["refunds"]][number % 2])
    story.producer()
    story.run(60 + story.rng.random() * 30)
    return story


def upgrade(number: int) -> Story:
    """A rolling upgrade adds a topic; members agree again within seconds."""
    story = Story(number, topics={TOPIC: 6, "refunds": 3})
    members = [story.member(f"worker-{n}", 1.0 + 0.31 * n) for n in range(3)]
    for n, member in enumerate(members):
        when = 20 + n * story.rng.uniform(3, 6)
        story.at(when, member.leave)
        story.member(member.name, when + 1.5, subscribes=[TOPIC, "refunds"])
    story.producer()
    story.run(90)
    return story


def other_assignor(number: int) -> Story:
    """A member offers no assignor of the other members; or it offers additional ones."""
    story, _ = group(number, 3, modern=False)
    offers = ("roundrobin", "sticky", "cooperative-sticky")[number % 3] + (",range" if number % 2 else "")
    story.member("stranger", 15, offers=offers)
    story.run(50)
    return story


def same_assignor(number: int) -> Story:
    """All members offer the same assignors; some leave and join."""
    offers = ("range", "range,cooperative-sticky", "roundrobin,range")[number % 3]
    story, members = group(number, 3, modern=False, offers=offers)
    restart(story, members[1], 20, 2.0, offers=offers)
    story.run(50)
    return story


# --- clients --------------------------------------------------------------------------------------------------------


def ask_often(
    story: Story, client: str, begin: float, end: float, every: float, make: Callable[[], Any], version: int
) -> None:
    def script() -> Script:
        line = story.connect(client)
        while story.now < end:
            answer = yield line, make(), version
            if answer is None:
                line = story.connect(client)
            yield story.rng.uniform(0.5, 1.5) * every

    story.play(begin, script())


def metadata_storm(number: int) -> Story:
    story, _ = group(number, 2)
    topic = MetadataRequest.Topic(name="missing")
    ask_often(
        story,
        "seeker",
        10,
        10 + story.rng.uniform(12, 30),
        story.rng.uniform(0.05, 0.3),
        lambda: MetadataRequest(topics=[topic], allow_auto_topic_creation=False),
        9,
    )
    story.run(50)
    return story


def some_metadata(number: int) -> Story:
    """One client requests metadata every few seconds, another often at its start; a third sends many other requests."""
    story, _ = group(number, 2)
    ask_often(story, "seeker", 10, 45, story.rng.uniform(1.0, 5), lambda: MetadataRequest(topics=[]), 9)
    ask_often(story, "starter", 10, 11.2, 0.05, lambda: MetadataRequest(topics=[]), 9)
    ask_often(story, "busy", 10, 20, 0.05, lambda: HELLO, 3)
    story.run(50)
    return story


def failing(number: int) -> Story:
    """A fraction of the responses of one API have an error."""
    story, _ = group(number, 3)
    probability = story.rng.uniform(0.25, 0.9)
    rule = {"occurrence": {"probability": probability, "seed": number}}
    if number % 2:
        story.rule("Produce", **rule, error="NOT_ENOUGH_REPLICAS")
    else:
        story.rule("OffsetCommit", **rule, error="GROUP_AUTHORIZATION_FAILED")
    story.run(80)
    return story


def few_errors(number: int) -> Story:
    """Few of many responses have errors, and there are the errors of normal operation."""
    story, members = group(number, 3)
    story.rule("Produce", occurrence={"skip": 10, "times": story.rng.randint(1, 4)}, error="NOT_ENOUGH_REPLICAS")
    restart(story, members[1], 30, 3.0)
    story.run(80)
    return story


def retrying(number: int) -> Story:
    story, _ = group(number, 2)
    kind = ProduceRequest.Topic
    batch = bytes(build_batch([Record(value=b"x")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=100, topic_data=[kind(name=TOPIC, partition_data=[kind.Partition(index=0, records=batch)])]
    )
    story.rule("Produce", match={"client_id": "hasty"}, error="NOT_LEADER_OR_FOLLOWER")
    ask_often(story, "hasty", 10, 10 + story.rng.uniform(6, 15), story.rng.uniform(0.02, 0.1), lambda: request, 9)
    story.run(45)
    return story


def backing_off(number: int) -> Story:
    """A client retries with backoff; another one sends requests as often, but gets no errors."""
    story, _ = group(number, 2)
    kind = ProduceRequest.Topic
    batch = bytes(build_batch([Record(value=b"x")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=100, topic_data=[kind(name=TOPIC, partition_data=[kind.Partition(index=0, records=batch)])]
    )
    story.rule("Produce", match={"client_id": "patient"}, occurrence={"times": 20}, error="NOT_LEADER_OR_FOLLOWER")
    ask_often(story, "patient", 10, 40, story.rng.uniform(0.5, 2), lambda: request, 9)
    ask_often(story, "busy", 10, 18, 0.05, lambda: request, 9)
    story.run(45)
    return story


def reconnecting(number: int) -> Story:
    story, _ = group(number, 2)
    story.rule("ApiVersions", match={"client_id": "shaky"}, disconnect="before")
    times, every = story.rng.randint(12, 30), story.rng.uniform(0.1, 1.5)

    def script() -> Script:
        for _ in range(times):
            line = story.connect("shaky")
            yield line, HELLO, 3
            line.close()
            yield every

    story.play(10, script())
    story.run(60)
    return story


def connecting(number: int) -> Story:
    """Many connections stay open, a few are short, and a tool connects every ten seconds."""
    story, _ = group(number, 2)

    def pool() -> Script:
        for _ in range(12):
            yield story.connect("pool"), HELLO, 3
            yield 0.2

    def tool() -> Script:
        for _ in range(5):
            line = story.connect("tool")
            yield line, HELLO, 3
            yield line, MetadataRequest(topics=[]), 9
            line.close()
            yield story.rng.uniform(8, 12)

    story.play(10, pool())
    story.play(10, tool())
    story.run(60)
    return story


def throttled(number: int) -> Story:
    story, _ = group(number, 2)
    api = ("Produce", "Fetch")[number % 2]
    story.rule(api, occurrence={"skip": 5, "times": story.rng.randint(3, 8)}, throttle_ms=story.rng.randint(400, 3000))
    story.run(60)
    return story


def hardly_throttled(number: int) -> Story:
    """Producers are throttled for up to 120 ms; Fetch responses are delayed, but not by throttling."""
    story, _ = group(number, 2)
    story.rule("Produce", occurrence={"skip": 5, "times": 3}, throttle_ms=story.rng.randint(10, 120))
    story.rule("Fetch", occurrence={"skip": 5, "times": 3}, delay_ms=1500)
    story.run(60)
    return story


# --- producers ------------------------------------------------------------------------------------------------------


def zombie(number: int) -> Story:
    """Two producers have the same transactional id; or the transaction of a producer times out."""
    story, _ = group(number, 2)
    if number % 2:
        transactions(story, "mover-1", [True] * 20, client="old", group_id=None)
        transactions(story, "mover-1", [True] * 3, at=16 + story.rng.random() * 4, client="new", group_id=None)
    else:
        transactions(
            story,
            "mover-1",
            [True, True],
            client="slow",
            group_id=None,
            timeout=5.0,
            open_for=story.rng.uniform(17, 22),
        )
    story.run(70)
    return story


def taken_over(number: int) -> Story:
    """A producer ends, and another one continues with its transactional id."""
    story, _ = group(number, 2)
    transactions(story, "mover-1", [True] * 3, client="old", group_id=None)
    transactions(story, "mover-1", [True, False, True], at=25 + story.rng.random() * 4, client="new", group_id=None)
    transactions(story, "mover-2", [True] * 3, at=26, client="third", group_id=None)
    story.run(60)
    return story


def hanging(number: int) -> Story:
    """A transaction stays open, because its producer hangs or has ended."""
    story, _ = group(number, 2)
    timeout = (20.0, 30.0, 45.0)[number % 3]
    if number % 2:
        story.play(10, transactional(story, "mover-1", [True, None], "mover", None, timeout, 0.5, 2, closes=True))
    else:
        transactions(story, "mover-1", [True, None], group_id=None, timeout=timeout)
    story.run(75)
    return story


def short_transactions(number: int) -> Story:
    """Transactions are open for seconds, and a producer closes its connection after the last one."""
    story, _ = group(number, 2)
    transactions(story, "mover-1", [True, False] * 3, open_for=story.rng.uniform(1, 6), group_id=None)
    story.play(12, transactional(story, "mover-2", [True, True], "other", None, 60.0, 0.5, 2, closes=True))
    story.run(60)
    return story


SCENARIOS = (
    Scenario("rebalance-storm", storm, growth),
    Scenario("costly-rebalance", costly, cheap),
    Scenario("unavailable-partition", unread, handed_over),
    Scenario("flapping-member", flapping, rolling),
    Scenario("slow-joiner", slow_join, prompt_join),
    Scenario("slow-assignment", slow_leader, quick_leader),
    Scenario("expired-member", killed, left),
    Scenario("expired-static-member", static_lost, static_back),
    Scenario("heartbeat-near-miss", near_miss, short_pause),
    Scenario("heartbeat-jitter", jitter, regular),
    Scenario("slow-poll", slow_poll, polls),
    Scenario("commit-gap", commit_gap, commits_rarely),
    Scenario("stale-commit", stale, proper_commits),
    Scenario("aborted-commit", aborted, none_aborted),
    Scenario("stuck-partition", stuck, not_stuck),
    Scenario("lagging-partition", lagging, keeps_up),
    Scenario("hot-partition", hot, even),
    Scenario("coordinator-moved", moved, stays),
    Scenario("coordinator-loading", loading, loaded),
    Scenario("subscription-mismatch", two_applications, upgrade),
    Scenario("assignor-mismatch", other_assignor, same_assignor),
    Scenario("metadata-storm", metadata_storm, some_metadata),
    Scenario("error-rate", failing, few_errors),
    Scenario("retry-loop", retrying, backing_off),
    Scenario("reconnect-loop", reconnecting, connecting),
    Scenario("throttled-client", throttled, hardly_throttled),
    Scenario("zombie-producer", zombie, taken_over),
    Scenario("hanging-transaction", hanging, short_transactions),
)
