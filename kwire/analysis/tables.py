"""All tables as data: columns with type, unit and origin.

docs/pipeline.md and the schemas of Parquet and Spark are generated from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.analysis.columns import (
    CAPTURE_ID,
    CLIENT,
    CLUSTER,
    CONNECTION,
    GENERATION,
    GROUP,
    INSTANCE,
    LIFE,
    MEMBER,
    PROTOCOL,
    Column,
    Table,
    flag,
    integer,
    long,
    millis,
    moment,
    partition_millis,
    text,
    texts,
)
from kwire.analysis.events import EVENT_COLUMNS


def _table(name: str, grain: str, order: str, *columns: Column) -> Table:
    return Table(name, grain, (CAPTURE_ID, *columns), tuple(order.split()))


CONNECTIONS = _table(
    "connections",
    "one TCP connection",
    "first_ts conn_id",
    CONNECTION,
    text("client", "host:port of the side that sends requests"),
    text("broker", "host:port of the side that sends responses"),
    CLUSTER,
    integer("node_id", "id of the broker; null if no response lists its address"),
    moment("first_ts", "first packet"),
    moment("last_ts", "last packet"),
    text("status", "`kafka`, `tls`, `sasl_opaque` or `not_kafka`"),
    flag("syn_seen", "whether the capture contains the SYN of the connection"),
    text("closed", "`fin`, `rst`, or null if the connection was still open when the capture ended"),
    CLIENT,
    text("software_name", "of the ApiVersions request; null if its version is below 3"),
    text("software_version", "of the ApiVersions request; null if its version is below 3"),
    long("bytes_to_broker", "TCP payload without retransmissions", "bytes"),
    long("bytes_to_client", "TCP payload without retransmissions", "bytes"),
    long("segments", "TCP segments", "count"),
    long("retransmitted", "segments whose bytes had all been captured earlier", "count"),
    long("out_of_order", "segments captured after a segment with a higher sequence number", "count"),
    long("conflicts", "overlapping segments with different bytes; the first copy is used", "count"),
    long("gaps", "ranges of missing bytes: not captured, or cut by a snap length", "count"),
    long("gap_bytes", "missing bytes of all gaps", "bytes"),
    long("resyncs", "gaps after which the decoder found the next frame", "count"),
    texts("notes", "notes of the decoder about the connection"),
)

FRAMES = _table(
    "frames",
    "one request with its response",
    "request_ts conn_id number",
    CONNECTION,
    long("number", "number of the call on its connection, in the order of the requests", "count"),
    text("client", "host:port"),
    text("broker", "host:port"),
    integer("correlation_id", "of the request header"),
    integer("api_key", "of the request header; null if the request was not captured"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    CLIENT,
    moment("request_ts", "packet that completes the request"),
    moment("response_ts", "packet that completes the response"),
    long("latency_us", "`response_ts - request_ts`, as seen where the capture was taken", "µs"),
    long("request_size", "frame without its length prefix", "bytes"),
    long("response_size", "frame without its length prefix", "bytes"),
    text("reason", "reason why the request or the response is missing or not decoded; null if both are decoded"),
    integer(
        "error_code",
        "first non-zero error code in the response; 0 if the response contains no error; null without a response",
    ),
    text("error_name", "Kafka's name of the error code"),
    integer("throttle_ms", "`throttle_time_ms` of the response", "ms"),
    text("file", "file in which the request begins; without a request, the file of the response"),
    long("position", "offset in `file` of the packet in which the request (or the response) begins", "bytes"),
    text("response_file", "file in which the response begins"),
    long("response_position", "offset in `response_file` of the packet in which the response begins", "bytes"),
    text("request", "body as JSON, with Kafka's field names in snake_case; records are replaced by their size"),
    text("response", "body as JSON, with Kafka's field names in snake_case; records are replaced by their size"),
)

GROUP_EVENTS = _table(
    "group_events",
    "one event of a group; docs/pipeline.md lists the kinds of events",
    "group_id cluster ts conn_id number part",
    *EVENT_COLUMNS,
)

REBALANCES = _table(
    "rebalances",
    "one change of generation",
    "group_id cluster started_ts to_generation",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    integer("from_generation", "previous generation; null if unknown"),
    integer(
        "to_generation",
        "new generation; null if the capture ends before it begins. A group that becomes empty also gets a new "
        "generation",
    ),
    moment(
        "started_ts",
        "time of the trigger: of the request if a member joined or left, or the end of the session if a member expired",
    ),
    moment(
        "joined_ts",
        "classic: first JoinGroup response of the generation; KIP-848: first response with the epoch",
    ),
    moment(
        "ended_ts",
        "classic: last SyncGroup response of the generation; KIP-848: last response with the epoch or added partitions",
    ),
    millis("duration_ms", "`ended_ts - started_ts`"),
    text(
        "trigger",
        "`left`, `joined`, `restart`, `subscription`, `revocation`, `metadata`, `expired`, `sync timeout`, "
        "`coordinator moved` or `unknown`, see above",
    ),
    text("trigger_member", "member id of the member that caused the rebalance"),
    text("trigger_client", "client id of the member that caused the rebalance"),
    text("trigger_evidence", "observation from which the trigger follows"),
    text(
        "trigger_confidence",
        "`observed`: a frame contains the trigger; `inferred`: it follows from missing or later frames",
    ),
    texts("members_before", "member ids of the previous generation; null if it was not captured"),
    texts("members_after", "member ids of the new generation"),
    text("leader", "member id; null in KIP-848 groups"),
    text("protocol_name", "assignor"),
    text(
        "stw_kind",
        "what the stop-the-world times of this row measure. `eager`: the time in which a member reads nothing, from "
        "its first JoinGroup to its SyncGroup response; for partitions of a member that left or expired, the time "
        "begins with the last request of this member. `cooperative` and `consumer`: the time in which a moved "
        "partition is not read, from the moment at which its owner had to revoke it, left or sent its last request, "
        "until the new owner received it",
    ),
    millis("stw_ms_max", "longest of the members' `stw_ms`; null if no member stopped"),
    millis("stw_ms_avg", "mean of the members' `stw_ms` that are not null"),
    integer("partitions_moved", "partitions whose owner changed", "count"),
    flag(
        "incomplete",
        "true if the row may be wrong: a member of the generation never received its share; earlier generations were "
        "not captured; or calls of the group were not read (lost, cut by a snap length, not decodable). The column "
        "covers the calls from the end of the second rebalance before this one to the end of this one; for the last "
        "rebalance, the calls to the end of the capture or of the group's life",
    ),
)

MEMBERS = _table(
    "members",
    "one member in one generation",
    "group_id cluster life generation member_id",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    MEMBER,
    INSTANCE,
    CLIENT,
    text("host", "IP address of the client"),
    moment("joined_ts", "first response that made the client a member"),
    moment("left_ts", "end of the membership; null if the capture ended first"),
    text(
        "left_how",
        "`leave`, `silent` (expired, inferred), `dropped` (not in the next generation or life), `fenced`, `suspended` "
        "(a static member of a KIP-848 group left with epoch -2; null again when it rejoins with the same member id), "
        "`replaced` (a static member rejoined with another member id, without having left)",
    ),
    integer(
        "session_timeout_ms",
        "of the member's JoinGroup; null in KIP-848 groups, where the timeout is a setting of the broker",
        "ms",
    ),
    integer("rebalance_timeout_ms", "of the member's JoinGroup or heartbeat", "ms"),
    texts("subscription", "topics in the member's last JoinGroup or heartbeat"),
    flag("leader", "whether the member is the leader, which computes the assignment"),
    moment(
        "stopped_ts",
        "start of the stop-the-world time `stw_ms`; if `resumed_ts` is null, the stop lasted until the end of the "
        "generation or of the capture",
    ),
    moment(
        "resumed_ts",
        "time at which the member received its share; if a KIP-848 member received its share in several responses, "
        "the end of the longest stop",
    ),
    millis(
        "join_ms",
        "classic: from the member's first JoinGroup after its previous share to its new share; KIP-848: from the "
        "trigger to the response with the epoch",
    ),
    millis(
        "stw_ms",
        "`resumed_ts - stopped_ts`: stop-the-world time, measured as `rebalances.stw_kind` describes; null for a new "
        "member that got no partition of a member that left or expired",
    ),
    flag(
        "incomplete",
        "true if calls of the group were not read between the time shortly before the member joined and the end of its "
        "membership, as in `rebalances`",
    ),
)

ASSIGNMENTS = _table(
    "assignments",
    "one partition of one member in one generation; in KIP-848 groups, of the last share that the member received in "
    "the epoch",
    "group_id cluster life generation member_id topic partition",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    MEMBER,
    CLIENT,
    text("topic", "topic name; `id:...` if the capture contains only the topic id"),
    integer("partition", "partition number"),
    text(
        "from_prev_owner",
        "member id of the last owner before this generation; null if the capture shows no earlier owner",
    ),
    text("source", "`told`: in a response to the member; `planned`: only in the leader's SyncGroup"),
)

ASSIGNMENT_CHANGES = _table(
    "assignment_changes",
    "one response that changed the share of a member (KIP-848, share and streams groups)",
    "group_id cluster life ts member_id",
    moment("ts", "of the response"),
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    integer(
        "generation",
        "latest epoch that a member had received until `ts`; `assignments` contains the share with this epoch",
    ),
    MEMBER,
    CLIENT,
    texts("partitions", "the new share, as `topic-partition`"),
    texts("gained", "partitions that are only in the new share"),
    texts("lost", "partitions that are only in the previous share"),
    millis(
        "unread_ms",
        "longest time in which a partition in `gained` had no reader. The time begins when the previous owner had to "
        "revoke the partition, left, or sent its last request; null if the capture shows no previous owner",
    ),
    flag(
        "incomplete",
        "true if calls of the group were not read since the previous change, or since the second rebalance before it",
    ),
)

OFFSET_COMMITS = _table(
    "offset_commits",
    "one partition of an OffsetCommit or TxnOffsetCommit",
    "group_id cluster ts topic partition member_id",
    moment("ts", "of the request"),
    GROUP,
    CLUSTER,
    LIFE,
    GENERATION,
    MEMBER,
    CLIENT,
    text("topic", "topic name"),
    integer("partition", "partition number"),
    long("offset", "committed offset", "records"),
    text("metadata", "metadata that the client stored with the offset"),
    flag(
        "transactional",
        "true for TxnOffsetCommit: the offset takes effect when the transaction is committed, see `outcome`",
    ),
    integer("error_code", "of this partition in the response; null without a response"),
    text("error_name", "Kafka's name of the error code"),
    text(
        "outcome",
        "`committed`: the group has this committed offset; `refused`: `error_code` is not 0; `aborted`: accepted in a "
        "transaction that was aborted; `unknown`: the response, or the end of the transaction, was not captured",
    ),
    moment(
        "outcome_ts",
        "end of the transaction: EndTxn, or the request that fenced the producer; null outside of transactions",
    ),
    text("transactional_id", "of a TxnOffsetCommit"),
    long("producer_id", "of a TxnOffsetCommit"),
    integer("producer_epoch", "of a TxnOffsetCommit"),
    long(
        "lag",
        "last high watermark before the commit, minus the committed offset; null if unknown, and for the outcomes "
        "`refused` and `aborted`",
        "records",
    ),
    millis("lag_age_ms", "time from the response with this high watermark (Fetch, ListOffsets) to the commit"),
)

SHARE_RECORDS = _table(
    "share_records",
    "all records of one partition and one kind that a member of a share group acquires or acknowledges with one call",
    "group_id cluster ts topic partition member_id kind",
    moment("ts", "of the response that contains the acquired records, or of the request that acknowledges them"),
    GROUP,
    CLUSTER,
    LIFE,
    MEMBER,
    CLIENT,
    text("topic", "topic name; `id:...` if the capture contains only the topic id"),
    integer("partition", "partition number"),
    text("kind", "`acquired`, `accepted`, `released`, `rejected`, `renewed` or `gaps` (offsets without records)"),
    long("first_offset", "offset of the first record", "records"),
    long("records", "offsets that are acquired or acknowledged", "count"),
    integer("deliveries", "largest delivery count of the records; null for acknowledgements", "count"),
    integer("error_code", "error code of the acknowledgements of the partition; null without a response"),
    text("error_name", "Kafka's name of the error code"),
)

ERRORS = _table(
    "errors",
    "one error code that one client received for one group, topic or partition",
    "api_name error_code client_id cluster group_id topic partition",
    text("api_name", "Kafka's name of the API"),
    integer("error_code", "a non-zero error code in any field of a response"),
    text("error_name", "Kafka's name of the error code"),
    CLIENT,
    CLUSTER,
    text("group_id", "group id in the request; null if the request has none"),
    text("topic", "topic to which the row applies; null if it applies to no single topic"),
    integer("partition", "partition to which the row applies; null if it applies to no single partition"),
    long("count", "occurrences of the error code in responses", "count"),
    moment("first_ts", "first occurrence"),
    moment("last_ts", "last occurrence"),
)

CLIENTS = _table(
    "clients",
    "one client id of one software on one host",
    "client_id host software_name software_version",
    CLIENT,
    text("host", "address"),
    text("software_name", "of an ApiVersions request (v3 and above) on the same connection; null without one"),
    text("software_version", "of an ApiVersions request (v3 and above) on the same connection; null without one"),
    long("connections", "TCP connections", "count"),
    long("calls", "requests", "count"),
    long("calls_removed_in_4", "requests in versions that Kafka 4 does not serve", "count"),
    moment("first_ts", "first request"),
    moment("last_ts", "last request"),
)

API_USAGE = _table(
    "api_usage",
    "one API in one version, used by one client",
    "api_key api_version client_id software_name software_version",
    integer("api_key", "of the request header"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    CLIENT,
    text("software_name", "of an ApiVersions request (v3 and above) on the same connection; null without one"),
    text("software_version", "of an ApiVersions request (v3 and above) on the same connection; null without one"),
    long("count", "requests", "count"),
    moment("first_ts", "first request"),
    moment("last_ts", "last request"),
    flag("removed_in_4", "true if Kafka 4.2 does not serve this version of the API"),
)

LATENCY = _table(
    "latency",
    "one API in one version at one broker in one minute",
    "bucket_ts api_key api_version broker",
    moment("bucket_ts", "start of the minute in which the request was sent"),
    integer("api_key", "of the request header"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    text("broker", "host:port"),
    long("n", "calls with a request and a response", "count"),
    millis("p50_ms", "median, nearest rank; includes the time for which Fetch and JoinGroup wait at the broker"),
    millis("p90_ms", "90th percentile, nearest rank"),
    millis("p99_ms", "99th percentile, nearest rank"),
    millis("max_ms", "longest latency"),
    Column(
        "histogram",
        "map<int,long>",
        "number of calls by the binary logarithm of their latency in µs, rounded down: 10 is 1024 to 2047 µs",
        "count",
    ),
)

VIOLATIONS = _table(
    "violations",
    "one violation of the rules of the protocol, or one suspicious event",
    "group_id cluster ts kind member_id topic partition",
    moment("ts", "of the violation"),
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    text(
        "kind",
        "`two_owners`, `commit_fenced`, `commit_old_generation`, `commit_not_owner`, `commit_went_back`, "
        "`heartbeat_gap`, `generation_went_back`",
    ),
    GENERATION,
    MEMBER,
    CLIENT,
    text("topic", "topic to which the row applies; null if it applies to no single topic"),
    integer("partition", "partition to which the row applies; null if it applies to no single partition"),
    text("detail", "description of the violation"),
)

PROBLEMS = _table(
    "problems",
    "packets of a file that were skipped or cut, damage in a file, or a connection that could not be read in full",
    "file position reason conn_id",
    moment("ts", "last packet of the connection, or last packet before the damage; null for skipped packets"),
    text("file", "path of the file; null for a connection"),
    long("position", "offset in the file at which the damage begins", "bytes"),
    text("conn_id", "id of the connection, as in `connections`; null for files"),
    text("client", "host:port"),
    text("broker", "host:port"),
    text(
        "reason",
        "packets: `not_ip`, `not_tcp`, `unknown_link`, `cut_headers`, `bad_headers`, `no_first_fragment`, `snaplen` "
        "(cut by a snap length, which counts as damage); connections: `tls`, `sasl_opaque`, `not_kafka`, `gaps` (bytes "
        "are missing), `one_sided` (no bytes from the broker), `noted`; null for other damage",
    ),
    long("packets", "packets of the file that were skipped or cut for this reason", "count"),
    text("note", "description of the reason, and notes of the decoder"),
    text("error", "description of the damage; null if there is none"),
)

FINDINGS = _table(
    "findings",
    "one finding of a detector (docs/findings.md)",
    "rank begin_ts finding cluster group_id client_id member_id topic partition sentence",
    integer("rank", "1 for `critical`, 2 for `warning`, 3 for `notice`"),
    text("severity", "`critical`, `warning` or `notice`"),
    text("finding", "name of the detector"),
    text("group_id", "group of the finding; null if it is not about a group"),
    CLUSTER,
    text("client_id", "client id of the finding; null if it is not about one client"),
    text("member_id", "member id of the finding; null if it is not about one member"),
    text("topic", "topic to which the row applies; null if it applies to no single topic"),
    integer("partition", "partition to which the row applies; null if it applies to no single partition"),
    moment("begin_ts", "time of the first evidence"),
    moment("end_ts", "time of the last evidence"),
    Column(
        "cost",
        "double",
        "duration of the problem in ms, or number of occurrences; findings of one severity are sorted by their cost, "
        "the largest first",
    ),
    text("sentence", "the finding in one sentence"),
    texts("evidence", "the first 20 references to rows of other tables: `table column=value ...`; timestamps in µs"),
    integer("evidence_count", "number of all references", "count"),
)

_AS_REBALANCES = "as in `rebalances`"

WHAT_IF = _table(
    "what_if",
    "one generation of a group, with the result that another assignor would have had",
    "group_id cluster started_ts generation life protocol",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    moment("started_ts", _AS_REBALANCES),
    text("protocol_name", _AS_REBALANCES),
    text("assignor", "the other assignor, named by `--what-if`"),
    text("stw_kind", _AS_REBALANCES),
    text("stw_kind_what_if", "`stw_kind` with the other assignor"),
    integer("members", "members of the generation", "count"),
    integer("partitions", "partitions of the topics that the members subscribe to", "count"),
    text(
        "sized_by",
        "source of the numbers of partitions: `metadata` (responses to Metadata), `assignments` (of this or earlier "
        "generations), or `both`; null if there are no partitions",
    ),
    integer(
        "rebalances_what_if",
        "number of rebalances with the other assignor: 1; 2 if it needs a follow-up rebalance that the capture does "
        "not contain; 0 for a follow-up in the capture that it does not need",
        "count",
    ),
    integer("moved", "`rebalances.partitions_moved`", "count"),
    integer("moved_what_if", "`moved` with the other assignor", "count"),
    integer("imbalance", "largest number of partitions of a member, minus the smallest", "count"),
    integer("imbalance_what_if", "`imbalance` with the other assignor, after its follow-up", "count"),
    partition_millis("stopped_ms", "time during which a partition had no owner, summed over partitions"),
    partition_millis(
        "stopped_ms_what_if", "`stopped_ms` with the other assignor, computed with the times of the capture"
    ),
    partition_millis(
        "avoided_ms", "`stopped_ms - stopped_ms_what_if`; negative if the other assignor would have cost more time"
    ),
    integer("elsewhere", "partitions that the other assignor would have assigned to another member", "count"),
    text("note", "reason why the other assignor was not computed; the columns `*_what_if` are then null"),
)

WHAT_IF_ASSIGNMENTS = _table(
    "what_if_assignments",
    "one partition that a member would have in one generation with the other assignor, after a follow-up if one is "
    "needed",
    "group_id cluster life protocol generation member_id topic partition",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    text("assignor", "the other assignor, named by `--what-if`"),
    MEMBER,
    CLIENT,
    text("topic", "topic name"),
    integer("partition", "partition number"),
    text("from_prev_owner", "member id of the last owner with the other assignor; null if none"),
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        CONNECTIONS,
        FRAMES,
        GROUP_EVENTS,
        REBALANCES,
        MEMBERS,
        ASSIGNMENTS,
        ASSIGNMENT_CHANGES,
        OFFSET_COMMITS,
        SHARE_RECORDS,
        ERRORS,
        CLIENTS,
        API_USAGE,
        LATENCY,
        VIOLATIONS,
        FINDINGS,
        PROBLEMS,
    )
}

ON_REQUEST: Mapping[str, Table] = {table.name: table for table in (WHAT_IF, WHAT_IF_ASSIGNMENTS)}
"""Tables written only with ``--what-if``."""

EVERY: Mapping[str, Table] = {**TABLES, **ON_REQUEST}
