"""Time of an assignment for a large group by the broker's assignors: the first one, and after a member has left.

    make bench

Times are the best of ROUNDS, in milliseconds.
"""

from __future__ import annotations

import time
from uuid import UUID, uuid5

from kwire.assignors import SERVER, GroupAssignment, MemberSubscription, assign

ROUNDS = 5
SIZES = [(10_000, 1, 1_000), (10_000, 100, 10), (10_000, 1_000, 1), (1_000, 100, 100)]  # members, topics, partitions


def main() -> None:
    print("| members | topics x partitions | subscriptions | assignor | first | after a member left |")
    print("|---|---|---|---|---|---|")
    for count, topics, partitions in SIZES:
        ids = tuple(uuid5(UUID(int=0), str(number)) for number in range(topics))
        counts = dict.fromkeys(ids, partitions)
        for subscriptions, others in (("homogeneous", ids), ("every other member half", ids[topics // 2 :])):
            if subscriptions != "homogeneous" and topics == 1:
                continue
            for name in SERVER:
                subscribed = {f"member-{n}-{uuid5(UUID(int=1), str(n))}": (ids, others)[n % 2] for n in range(count)}
                members = {member_id: MemberSubscription(topic_ids) for member_id, topic_ids in subscribed.items()}
                first, target = _timed(name, members, counts)
                rest = {m: MemberSubscription(subscribed[m], target[m]) for m in list(subscribed)[1:]}
                again, _ = _timed(name, rest, counts)
                print(f"| {count} | {topics} x {partitions} | {subscriptions} | {name} | {first:.0f} | {again:.0f} |")


def _timed(name: str, members: dict[str, MemberSubscription], counts: dict[UUID, int]) -> tuple[float, GroupAssignment]:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        target = assign(name, members, counts)
        best = min(best, time.perf_counter() - start)
    return best * 1e3, target


if __name__ == "__main__":
    main()
