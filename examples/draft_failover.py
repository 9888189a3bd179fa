"""The draft of Kafka 0.9: its coordinator fails at each step of a rebalance, and the next coordinator recovers.

The draft never shipped; mockbroker runs it in virtual time (docs/draft.md).
"""

from mockbroker.lab.history.draft import DraftCluster, owners
from mockbroker.lab.history.draft.failover import STEPS

REPEATED = ("Metadata", "CoordinatorStartupNotComplete", "OffsetFetch", "OffsetCommit", "offsets", "watched")


def play(step: str) -> None:
    """Two members share four partitions; the topic gets two more, and the coordinator fails at this step."""
    cluster = DraftCluster({"orders": 4})
    for _ in range(2):
        cluster.add("billing", ["orders"])
    cluster.run(20)
    generation = cluster.store.read("billing").generation
    cluster.strike(STEPS[step])  # the broker fails directly after it, before the next message
    cluster.set_topic("orders", 6)
    cluster.run(30)

    print(f"\nThe coordinator dies when {step[2:]}:")
    moments = [moment for moment in cluster.trace if moment.time >= 20]
    last = max(moment.time for moment in moments if moment.kind == "became")
    for moment in moments:
        if moment.time <= last and not any(word in str(moment) for word in REPEATED):
            print(moment)
    shares = owners(cluster.spans, "billing", cluster.now)
    assert cluster.is_settled("billing")
    assert [len(consumers) for consumers in shares.values()] == [1] * 6
    print(f"generation {generation} -> {cluster.store.read('billing').generation}, each partition has one owner")


if __name__ == "__main__":
    for number_and_step in STEPS:
        play(number_and_step)
