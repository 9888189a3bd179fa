"""Comparison of a response with the recorded response, by pure functions.

Some values differ in every run: ids of members, topics, producers and sessions. When a recorded id occurs for the first
time, the recorded id is bound to the id in the same field of this run. After that, wherever the recording has the
recorded id, this run must have the bound id.

Most fields must be equal to the recorded ones. The tables below list the exceptions: fields that are not compared,
error messages, numbers of which only the sign must agree, and arrays that are compared as sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mockbroker.lab.conform.records import read_records

ANYTHING = frozenset(
    {
        "host",
        "port",
        "cluster_id",
        "finalized_features_epoch",
        "zk_migration_ready",
    }
)
TEXTS = frozenset({"error_message", "batch_index_error_message"})  # of an external broker: only null and "" agree
FEATURES = frozenset({"supported_features", "finalized_features"})  # not compared for an external broker
TIMES = frozenset(  # only -1 must agree
    {
        "transaction_start_time_ms",
        "last_timestamp",
        "log_append_time_ms",
        "issue_timestamp",
        "issue_timestamp_ms",
        "expiry_timestamp",
        "expiry_timestamp_ms",
        "max_timestamp",
        "max_timestamp_ms",
        "total_bytes",
        "usable_bytes",
    }
)
VARYING = {  # by API: numbers of which only the sign must agree
    "DescribeCluster": frozenset({"controller_id"}),  # Kafka returns any broker
    "DescribeQuorum": frozenset(
        {"high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"}
    ),
}
THROTTLE_TOLERANCE_MS = 50  # and a twentieth of the throttle time, because requests arrive at other times

NUMBERED = {  # field -> kind of number
    "producer_id": "producer_id",
    "v3_and_below_producer_id": "producer_id",
    "producer_id_filters": "producer_id",
    "session_id": "session_id",
}  # numbers that the broker assigns; bound like ids
SETS: Mapping[str, frozenset[str]] = {  # list -> APIs in which its order does not matter; empty for all APIs
    "matching_acls": frozenset(),
    "tokens": frozenset(),
    "renewers": frozenset(),
    "acls": frozenset(),
    "resources": frozenset({"DescribeAcls"}),
    "members": frozenset(),
    "groups": frozenset(
        {
            "ConsumerGroupDescribe",
            "DescribeGroups",
            "DescribeShareGroupOffsets",
            "ListGroups",
            "ShareGroupDescribe",
            "StreamsGroupDescribe",
        }
    ),
    "topics": frozenset(
        {
            "CreateTopics",
            "DeleteRecords",
            "DescribeShareGroupOffsets",
            "DescribeTopicPartitions",
            "DescribeTransactions",
            "ListOffsets",
            "Metadata",
            "OffsetCommit",
            "OffsetDelete",
            "OffsetFetch",
            "TxnOffsetCommit",
            "WriteTxnMarkers",
        }
    ),
    "topic_partitions": frozenset(),
    "subscribed_topic_names": frozenset(),
    "isr_nodes": frozenset(),
    "brokers": frozenset({"DescribeCluster"}),
    "partitions": frozenset(
        {
            "ConsumerGroupDescribe",
            "ConsumerGroupHeartbeat",
            "DeleteRecords",
            "AlterReplicaLogDirs",
            "DescribeLogDirs",
            "DescribeShareGroupOffsets",
            "DescribeTransactions",
            "ListOffsets",
            "Metadata",
            "OffsetCommit",
            "OffsetFetch",
            "ShareGroupDescribe",
            "ShareGroupHeartbeat",
            "WriteTxnMarkers",
        }
    ),
    "active_producers": frozenset(),
    "results_by_partition": frozenset(),
    "results_by_topic_v3_and_below": frozenset(),
    "topic_results": frozenset(),
    "transaction_states": frozenset({"ListTransactions"}),
    "responses": frozenset(
        {"AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DeleteTopics", "Produce", "ShareFetch"}
    ),
    "results": frozenset(
        {
            "AlterReplicaLogDirs",
            "AlterUserScramCredentials",
            "CreatePartitions",
            "DeleteGroups",
            "DescribeConfigs",
            "DescribeUserScramCredentials",
        }
    ),
    "credential_infos": frozenset(),
    "mechanisms": frozenset(),
    "api_keys": frozenset(),
    "configs": frozenset(),
    "config_resources": frozenset(),
    "supported_features": frozenset(),
    "finalized_features": frozenset(),
    "replica_election_results": frozenset(),
    "entries": frozenset({"DescribeClientQuotas"}),
    "values": frozenset({"DescribeClientQuotas"}),
}
OFFERED = frozenset({"api_keys", "configs"})  # recorded elements that the broker under test lacks are ignored
SHORT_IDS = frozenset({"topic_id", "member_id", "token_id"})
IDENTITY = (
    "name",
    "topic_name",
    "topic_id",
    "partition_index",
    "broker_id",
    "index",
    "group_id",
    "key",
    "api_key",
    "member_id",
    "user",
    "mechanism",
    "resource_name",
    "principal",
    "principal_name",
    "token_id",
    "transactional_id",
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SHORT_UUID = re.compile(r"[0-9A-Za-z_-]{22}")  # a topic id, or a member id of the consumer protocol
CLIENT_HOST = re.compile(r"/[0-9a-fA-F.:]+")
REFUSED = re.compile(r"^Request .* needs ", re.DOTALL)  # Kafka quotes its internal request object here
CLUSTER_ID = re.compile(r'(?<=the cluster id )"[^"]*"')  # in a text; it differs in each run
LONG_NUMBER = re.compile(r"-?\d{13,}")  # a timestamp in a text, which differs in each run
ASKED_OPERATIONS = -2147483648
MISSING = "(nothing)"


class Bindings:
    """The ids and numbers of this run that correspond to the ids and numbers of the recording.

    Args:
        names: recorded id -> label, as in the conversation file.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._labels = names
        self._bound: dict[str, str] = {}
        self._numbers: dict[tuple[str, int], int] = {}

    def bind(self, recorded: str, ours: str) -> None:
        """Bind a recorded id to the id in the same field of this run. An earlier binding is replaced.

        Args:
            recorded: recorded id.
            ours: id in this run.
        """
        self._bound[recorded] = ours

    def fits(self, recorded: str, ours: object) -> bool:
        """Return whether an id in this run corresponds to a recorded id.

        If neither id is bound yet and both have the same format (such as a UUID after the same prefix), bind them to
        each other and return True. (Topic ids and HMACs may have any format.)

        Args:
            recorded: recorded id.
            ours: value of the same field in this run.
        """
        if recorded in self._bound:
            return self._bound[recorded] == ours
        if not isinstance(ours, str) or ours in self._bound.values():
            return False
        if not self._labels[recorded].startswith(("$topic", "$hmac")):
            form = SHORT_UUID if SHORT_UUID.fullmatch(recorded) else UUID  # a member id must have the same form
            if form.search(ours) is None or form.sub("", ours) != form.sub("", recorded):
                return False
        self.bind(recorded, ours)
        return True

    def in_text(self, text: str) -> str:
        """Return a recorded text with the ids of this run in place of the recorded ids."""
        for recorded, ours in self._bound.items():
            text = text.replace(recorded, ours)
        return text

    def is_id(self, value: str) -> bool:
        """Return whether ``value``, a text of the recording, is an id for which the conversation file has a label."""
        return value in self._labels

    def number_fits(self, name: str, recorded: int, ours: object) -> bool:
        """Return whether a number in this run corresponds to a recorded number.

        If the recorded number is not bound yet, bind it to the number in this run, and return True.

        Negative numbers and the session id 0 are never bound: return whether both numbers are equal.

        Args:
            name: name of the field, such as ``producer_id``.
            recorded: recorded number.
            ours: number in this run.
        """
        if recorded < 0 or (name == "session_id" and recorded == 0):
            return recorded == ours
        if not isinstance(ours, int) or ours < 0 or (name == "session_id" and ours == 0):
            return False
        return self._numbers.setdefault((NUMBERED[name], recorded), ours) == ours

    def number(self, name: str, recorded: int) -> int:
        """Return the number in this run to which a recorded number is bound, or the recorded number if it is not bound.

        Args:
            name: name of the field, such as ``producer_id``.
            recorded: the number in the recording.
        """
        return self._numbers.get((NUMBERED[name], recorded), recorded)

    def ours(self, value: Any, name: str = "") -> Any:
        """Return a recorded value, such as a request, with the ids and numbers of this run.

        Recorded ids and numbers that are not bound remain.

        Args:
            value: the recorded value.
            name: name of the field that contains the value.
        """
        if isinstance(value, Mapping):
            return {key: self.ours(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.ours(item, name) for item in value]
        if name in NUMBERED and isinstance(value, int):
            return self.number(name, value)
        return self._bound.get(value, value) if isinstance(value, str) else value

    def sort_key(self, item: Any, *, recorded: bool) -> str:
        """Return the sort key of an element in an array that is compared as a set.

        The key consists of the element's identifying fields, followed by all its fields that are compared. In the key,
        "?" replaces each id that is not bound.

        Args:
            item: the element.
            recorded: True for an element of the recording, False for an element of this run.
        """
        if not isinstance(item, Mapping):
            return json.dumps(self._plain(item, recorded=recorded))
        identity = [self._plain(item.get(name), name, recorded=recorded) for name in IDENTITY]
        rest = {
            key: self._plain(value, key, recorded=recorded)
            for key, value in item.items()
            if key not in ANYTHING | TEXTS
        }
        return json.dumps([identity, rest], sort_keys=True)

    def _plain(self, value: Any, name: str = "", *, recorded: bool) -> Any:
        if isinstance(value, Mapping):
            return {key: self._plain(item, key, recorded=recorded) for key, item in value.items()}
        if isinstance(value, list):
            return [self._plain(item, name, recorded=recorded) for item in value]
        if not isinstance(value, str):
            return value
        if recorded:
            return self._bound.get(value, "?") if value in self._labels else value
        generated = UUID.search(value) or (name in SHORT_IDS and SHORT_UUID.fullmatch(value))
        return "?" if generated and value not in self._bound.values() else value


class Comparison:
    """The comparison of one response with the recorded one.

    Args:
        bindings: ids and numbers of this run.
        api: name of the API.
        only: list name -> function that selects the elements to compare; lists that are not in ``only`` are compared
            completely.
        exactly: True to compare error messages, authorized operations and features too; False for external brokers,
            where they may differ.
    """

    def __init__(
        self,
        bindings: Bindings,
        api: str,
        only: Mapping[str, Callable[[Any], bool]] | None = None,
        *,
        exactly: bool = False,
    ) -> None:
        self.bindings = bindings
        self.api = api
        self.only = only or {}
        self.exactly = exactly

    def difference(self, recorded: Any, ours: Any, path: str = "") -> str | None:
        """Return the first difference between two values, such as ``path: recorded X, got Y``, or None if they agree.

        Args:
            recorded: recorded value.
            ours: value in this run.
            path: path of the value in the response.
        """
        name = re.sub(r"\[\d+\]$", "", path.rpartition(".")[2])
        if name in ANYTHING or (name in FEATURES and not self.exactly):
            return None
        if isinstance(recorded, Mapping) and isinstance(ours, Mapping):
            return self._objects(recorded, ours, path)
        if isinstance(recorded, list) and isinstance(ours, list):
            return self._lists(recorded, ours, name, path)
        if name == "records" and isinstance(recorded, str) and isinstance(ours, str) and recorded != ours:
            return self.difference(read_records(recorded), read_records(ours), path)
        return None if self._same(name, recorded, ours) else f"{path}: recorded {_short(recorded)}, got {_short(ours)}"

    def _same(self, name: str, recorded: Any, ours: Any) -> bool:
        if name in TEXTS:
            return self._same_text(recorded, ours)
        if name == "client_host" and recorded:
            return CLIENT_HOST.fullmatch(str(ours)) is not None
        if name.endswith("authorized_operations") and recorded != ASKED_OPERATIONS and not self.exactly:
            return bool(ours != ASKED_OPERATIONS)
        if name in TIMES or name in VARYING.get(self.api, ()):
            return isinstance(ours, int) and (recorded < 0) == (ours < 0)
        if name == "throttle_time_ms" and recorded and ours:
            return bool(abs(recorded - ours) <= THROTTLE_TOLERANCE_MS + recorded // 20)
        if name in NUMBERED and isinstance(recorded, int):
            return self.bindings.number_fits(name, recorded, ours)
        if isinstance(recorded, str) and self.bindings.is_id(recorded):
            return self.bindings.fits(recorded, ours)
        return type(recorded) is type(ours) and bool(recorded == ours)

    def _same_text(self, recorded: str | None, ours: str | None) -> bool:
        if not (self.exactly and recorded and ours):
            return (recorded is None, recorded == "") == (ours is None, ours == "")
        recorded, ours = (CLUSTER_ID.sub('"ID"', REFUSED.sub("needs ", text)) for text in (recorded, ours))
        return LONG_NUMBER.sub("N", self.bindings.in_text(recorded)) == LONG_NUMBER.sub("N", ours)

    def _objects(self, recorded: Mapping[str, Any], ours: Mapping[str, Any], path: str) -> str | None:
        for key in [*recorded, *(key for key in ours if key not in recorded)]:
            here = f"{path}.{key}" if path else key
            if key not in ANYTHING | FEATURES and (key not in ours or key not in recorded):
                was, now = recorded.get(key, MISSING), ours.get(key, MISSING)
                return f"{here}: recorded {_short(was)}, got {_short(now)}"
            if difference := self.difference(recorded.get(key), ours.get(key), here):
                return difference
        return None

    def _lists(self, recorded: list[Any], ours: list[Any], name: str, path: str) -> str | None:
        if name in self.only:
            recorded = [item for item in recorded if self.only[name](item)]
            ours = [item for item in ours if self.only[name](item)]
        if name in SETS and (not SETS[name] or self.api in SETS[name]):
            recorded = sorted(recorded, key=lambda item: self.bindings.sort_key(item, recorded=True))
            ours = sorted(ours, key=lambda item: self.bindings.sort_key(item, recorded=False))
            if name in OFFERED:
                keys = {_offer(item) for item in ours}
                recorded = [item for item in recorded if _offer(item) in keys]
        if len(recorded) != len(ours):
            return f"{path}: recorded {len(recorded)} elements, got {len(ours)}: {_short(recorded)}, {_short(ours)}"
        pairs = enumerate(zip(recorded, ours, strict=True))
        return next((d for i, (was, now) in pairs if (d := self.difference(was, now, f"{path}[{i}]"))), None)


def _offer(item: Any) -> object:
    return item.get("api_key", item.get("name")) if isinstance(item, Mapping) else item


def _short(value: object) -> str:
    text = value if value is MISSING else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:197]}..."
