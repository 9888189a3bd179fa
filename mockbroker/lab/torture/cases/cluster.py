"""Cases with contradictory or absurd responses about API versions, brokers, topics and coordinators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.metadata import MetadataResponse
from mockbroker.lab.torture.case import Case, Turn

Version = ApiVersionsResponse.ApiVersion
Partition = MetadataResponse.Topic.Partition
ABSENT, DEAD_PORT = 99, 1  # id of a broker that does not exist; a port at which nothing listens
MANY_PARTITIONS, MANY_BROKERS = 100_000, 10_000
OF_COORDINATOR = "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit", "ConsumerGroupHeartbeat"
LIBRDKAFKA_3396 = "https://github.com/confluentinc/librdkafka/issues/3396"
LIBRDKAFKA_4789 = "https://github.com/confluentinc/librdkafka/issues/4789"
FRANZ_GO_295 = "https://github.com/twmb/franz-go/issues/295"


# --- ApiVersions ---


def no_versions(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys = []


def only_api_versions(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys = [each for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]


def no_fetch(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys = [each for each in response.api_keys if each.api_key != ApiKey.FETCH]


def no_offset_fetch(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys = [each for each in response.api_keys if each.api_key != ApiKey.OFFSET_FETCH]


def minimum_above_maximum(response: Any, _request: Any, _: Turn) -> None:
    for each in response.api_keys:
        each.min_version, each.max_version = each.max_version + 1, each.min_version


def only_future_versions(response: Any, _request: Any, _: Turn) -> None:
    for each in response.api_keys:
        each.min_version, each.max_version = 1_000, 1_001


def negative_versions(response: Any, _request: Any, _: Turn) -> None:
    for each in response.api_keys:
        each.min_version, each.max_version = -32_768, -1


def every_version(response: Any, _request: Any, _: Turn) -> None:
    for each in response.api_keys:
        each.min_version, each.max_version = 0, 32_767


def many_apis(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys += [Version(api_key=key, min_version=0, max_version=1) for key in range(200, 30_000)]


def duplicate_apis(response: Any, _request: Any, _: Turn) -> None:
    response.api_keys = [*response.api_keys, *only_oldest(response.api_keys)]


def only_oldest(keys: list[Any]) -> list[Any]:
    return [Version(api_key=each.api_key, min_version=each.min_version, max_version=each.min_version) for each in keys]


# --- Metadata ---


def partitions(response: Any) -> list[Any]:
    return [each for topic in response.topics for each in topic.partitions]


def no_brokers(response: Any, _request: Any, _: Turn) -> None:
    response.brokers = []


def no_topics(response: Any, _request: Any, _: Turn) -> None:
    response.topics = []


def nothing_at_all(response: Any, _request: Any, _: Turn) -> None:
    response.brokers, response.topics = [], []


def no_partitions(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        topic.partitions = []


def no_leaders(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.leader_id = -1


def absent_leaders(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.leader_id = ABSENT


def wandering_leaders(response: Any, _request: Any, turn: Turn) -> None:
    ids = [each.node_id for each in response.brokers]
    for each in partitions(response):
        each.leader_id = ids[turn.number % len(ids)]


def no_replicas(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.replica_nodes, each.isr_nodes = [], []


def duplicate_partitions(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        topic.partitions = topic.partitions * 2


def gaps_between_partitions(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.partition_index = each.partition_index * 1_000 + 7


def negative_partitions(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.partition_index = -each.partition_index - 1


def largest_partition(response: Any, _request: Any, _: Turn) -> None:
    for each in partitions(response):
        each.partition_index = 2**31 - 1


def many_partitions(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        if topic.partitions:
            leader = topic.partitions[0].leader_id
            topic.partitions = [
                Partition(partition_index=index, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader])
                for index in range(MANY_PARTITIONS)
            ]


def fewer_partitions(response: Any, _request: Any, turn: Turn) -> None:
    if turn.number % 2:
        for topic in response.topics:
            topic.partitions = topic.partitions[:1]


def falling_epochs(response: Any, _request: Any, turn: Turn) -> None:
    for each in partitions(response):
        each.leader_epoch = max(0, each.leader_epoch - turn.number)


def new_topic_ids(response: Any, _request: Any, turn: Turn) -> None:
    for topic in response.topics:
        topic.topic_id = UUID(int=turn.random.getrandbits(128))


def no_topic_ids(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        topic.topic_id = UUID(int=0)


def other_topics(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        if topic.name is not None:
            topic.name = f"{topic.name}-other"


def long_names(response: Any, _request: Any, _: Turn) -> None:
    for topic in response.topics:
        if topic.name is not None:
            topic.name = "x" * 30_000


def dead_port(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.port = DEAD_PORT


def port_zero(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.port = 0


def port_too_large(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.port = 2**31 - 1


def negative_port(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.port = -1


def empty_hosts(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.host = ""


def long_hosts(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.host = "x" * 30_000


def hosts_that_do_not_resolve(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.host = "broker.invalid"


def equal_ids(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.node_id = 0


def negative_ids(response: Any, _request: Any, _: Turn) -> None:
    for each in response.brokers:
        each.node_id = -each.node_id - 1


def many_brokers(response: Any, _request: Any, _: Turn) -> None:
    kind = MetadataResponse.Broker
    response.brokers += [kind(node_id=1_000 + n, host="127.0.0.1", port=DEAD_PORT) for n in range(MANY_BROKERS)]


# --- FindCoordinator ---


def coordinators(response: Any) -> list[Any]:
    """Return the structs of a FindCoordinator response that contain an address.

    Up to v3 this is the response itself; since v4, it is each element of its list.
    """
    return response.coordinators or [response]


def absent_coordinator(response: Any, _request: Any, _: Turn) -> None:
    for each in coordinators(response):
        each.node_id, each.host, each.port, each.error_code = -1, "", -1, 0


def dead_coordinator(response: Any, _request: Any, _: Turn) -> None:
    for each in coordinators(response):
        each.port = DEAD_PORT


def unknown_coordinator(response: Any, _request: Any, _: Turn) -> None:
    for each in coordinators(response):
        each.node_id, each.port = ABSENT, DEAD_PORT


def alternating_coordinators(response: Any, _request: Any, turn: Turn) -> None:
    for each in coordinators(response):
        each.node_id, each.host, each.port = turn.brokers[turn.number % len(turn.brokers)]
        each.error_code = 0


def no_coordinators(response: Any, _request: Any, _: Turn) -> None:
    if response.coordinators:
        response.coordinators = []
    else:
        absent_coordinator(response, None, _)


def other_key(response: Any, _request: Any, _: Turn) -> None:
    for each in response.coordinators:
        each.key += "-other"


CHANGES = [  # name, step, description, change, published
    ("no-versions", "ApiVersions", "advertises no API", no_versions, ""),
    ("only-ApiVersions", "ApiVersions", "advertises ApiVersions only", only_api_versions, ""),
    ("no-Fetch", "ApiVersions", "advertises all APIs but Fetch", no_fetch, ""),
    ("no-OffsetFetch", "ApiVersions", "advertises all APIs but OffsetFetch", no_offset_fetch, LIBRDKAFKA_4789),
    (
        "minimum-above-maximum",
        "ApiVersions",
        "advertises minima above the maxima",
        minimum_above_maximum,
        "",
    ),
    ("only-future-versions", "ApiVersions", "advertises versions that do not exist", only_future_versions, ""),
    ("negative-versions", "ApiVersions", "advertises negative versions", negative_versions, ""),
    ("every-version", "ApiVersions", "advertises versions 0 to 32767 of each API", every_version, ""),
    ("many-APIs", "ApiVersions", "advertises 30,000 APIs", many_apis, ""),
    ("duplicate-APIs", "ApiVersions", "advertises each API twice, with different versions", duplicate_apis, ""),
    ("no-brokers", "Metadata", "knows no brokers", no_brokers, ""),
    ("no-topics", "Metadata", "leaves all topics out", no_topics, ""),
    ("empty-metadata", "Metadata", "knows neither brokers nor topics", nothing_at_all, ""),
    ("no-partitions", "Metadata", "knows topics without partitions", no_partitions, ""),
    ("no-leaders", "Metadata", "knows no leader of any partition", no_leaders, ""),
    ("absent-leaders", "Metadata", "names a leader that is not among the brokers", absent_leaders, ""),
    ("wandering-leaders", "Metadata", "names another leader each time", wandering_leaders, ""),
    ("no-replicas", "Metadata", "knows partitions without replicas", no_replicas, ""),
    ("duplicate-partitions", "Metadata", "names each partition twice", duplicate_partitions, ""),
    ("gaps-between-partitions", "Metadata", "numbers partitions 7, 1007, 2007", gaps_between_partitions, ""),
    ("negative-partitions", "Metadata", "numbers partitions -1, -2, -3", negative_partitions, ""),
    ("largest-partition", "Metadata", "numbers all partitions 2147483647", largest_partition, ""),
    ("many-partitions", "Metadata", "knows 100,000 partitions of each topic", many_partitions, ""),
    (
        "fewer-partitions",
        "Metadata",
        "knows all partitions, and the next time one of each topic",
        fewer_partitions,
        "",
    ),
    ("falling-epochs", "Metadata", "names a lower leader epoch each time", falling_epochs, ""),
    ("new-topic-ids", "Metadata", "names new topic ids each time", new_topic_ids, ""),
    ("no-topic-ids", "Metadata", "names topics without ids, although Fetch needs them", no_topic_ids, FRANZ_GO_295),
    ("other-topics", "Metadata", "answers with other topics than asked", other_topics, ""),
    ("long-names", "Metadata", "answers with topic names of 30,000 characters", long_names, ""),
    ("dead-port", "Metadata", "names ports at which nothing listens", dead_port, ""),
    ("port-zero", "Metadata", "names port 0", port_zero, ""),
    ("port-too-large", "Metadata", "names port 2147483647", port_too_large, ""),
    ("negative-port", "Metadata", "names port -1", negative_port, ""),
    ("empty-hosts", "Metadata", "names empty hosts", empty_hosts, ""),
    ("long-hosts", "Metadata", "names hosts of 30,000 characters", long_hosts, ""),
    ("unresolvable-hosts", "Metadata", "names hosts that do not exist", hosts_that_do_not_resolve, ""),
    ("equal-ids", "Metadata", "names several brokers with the same id", equal_ids, ""),
    ("negative-ids", "Metadata", "names brokers with negative ids", negative_ids, ""),
    ("many-brokers", "Metadata", "names 10,000 brokers that do not exist", many_brokers, ""),
    ("absent-coordinator", "FindCoordinator", "names coordinator -1 without an error", absent_coordinator, ""),
    ("dead-coordinator", "FindCoordinator", "names a coordinator at which nothing listens", dead_coordinator, ""),
    ("unknown-coordinator", "FindCoordinator", "names a coordinator that is no broker", unknown_coordinator, ""),
    ("no-coordinators", "FindCoordinator", "answers without a coordinator", no_coordinators, ""),
    ("other-key", "FindCoordinator", "names the coordinator of another group", other_key, ""),
]
CASES = [
    *(Case(name, step, what, change=change, published=published) for name, step, what, change, published in CHANGES),
    Case(
        "alternating-coordinators",
        "FindCoordinator",
        "names one broker as the coordinator, then the other, and both answer NOT_COORDINATOR",
        rules=tuple({"api": api, "error": "NOT_COORDINATOR", "times": "always"} for api in OF_COORDINATOR),
        change=alternating_coordinators,
        published=LIBRDKAFKA_3396,
    ),
]
