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
    text("broker", "host:port of the other side"),
    CLUSTER,
    integer("node_id", "id of the broker; null if no response lists its address"),
    moment("first_ts", "first packet"),
    moment("last_ts", "last packet"),
    text("status", "`kafka`, `tls`, `sasl_opaque` or `not_kafka`"),
    flag("syn_seen", "whether the beginning was captured"),
    text("closed", "`fin`, `rst`, or null if it was still open"),
    CLIENT,
    text("software_name", "of the ApiVersions request, null before v3"),
    text("software_version", "of the ApiVersions request, null before v3"),
    long("bytes_to_broker", "payload, retransmissions not counted", "bytes"),
    long("bytes_to_client", "payload, retransmissions not counted", "bytes"),
    long("segments", "TCP segments", "count"),
    long("retransmitted", "segments that brought nothing new", "count"),
    long("out_of_order", "segments that came before an earlier one", "count"),
    long("conflicts", "overlaps whose bytes differ; the first copy counts", "count"),
    long("gaps", "places where bytes are missing: not captured, or cut by a snap length", "count"),
    long("gap_bytes", "bytes that are missing", "bytes"),
    long("resyncs", "times that frames were found again after a gap", "count"),
    texts("notes", "what the reader remarked"),
)

FRAMES = _table(
    "frames",
    "one request with its response",
    "request_ts conn_id number",
    CONNECTION,
    long("number", "counts the calls of the connection, by their requests", "count"),
    text("client", "host:port"),
    text("broker", "host:port"),
    integer("correlation_id", "of the request header"),
    integer("api_key", "of the request header; null if the request was not seen"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    CLIENT,
    moment("request_ts", "packet that completes the request"),
    moment("response_ts", "packet that completes the response"),
    long("latency_us", "`response_ts - request_ts`, as seen where the capture was taken", "µs"),
    long("request_size", "frame without its length prefix", "bytes"),
    long("response_size", "frame without its length prefix", "bytes"),
    text("reason", "why one side is missing or not decoded, else null"),
    integer(
        "error_code", "the first error code in the response that is not 0; 0 if there is none; null without response"
    ),
    text("error_name", "Kafka's name of it"),
    integer("throttle_ms", "`throttle_time_ms` of the response", "ms"),
    text("file", "file in which the request, or else the response, begins"),
    long("position", "offset of its packet in the file", "bytes"),
    text("response_file", "file in which the response begins"),
    long("response_position", "offset of its packet in the file", "bytes"),
    text("request", "body as JSON, by Kafka's field names; records are replaced by their size"),
    text("response", "body as JSON, by Kafka's field names; records are replaced by their size"),
)

GROUP_EVENTS = _table(
    "group_events",
    "one thing that happened in a group; docs/pipeline.md lists them",
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
    integer("from_generation", "generation before; null if it is not known"),
    integer(
        "to_generation",
        "generation after; null if the capture ends before it. A group that becomes empty counts one up",
    ),
    moment(
        "started_ts",
        "the trigger: request of a join or leave; the end of the session of a member that expired",
    ),
    moment(
        "joined_ts",
        "classic: first answer to a JoinGroup of the generation; KIP-848: first time that a member receives it",
    ),
    moment(
        "ended_ts",
        "classic: last answer to a SyncGroup of the generation; KIP-848: last member to receive the epoch or a share",
    ),
    millis("duration_ms", "`ended_ts - started_ts`"),
    text(
        "trigger",
        "`left`, `joined`, `restart`, `subscription`, `revocation`, `metadata`, `expired`, `sync timeout`, "
        "`coordinator moved` or `unknown`, as above",
    ),
    text("trigger_member", "member id of the member that caused it"),
    text("trigger_client", "its client id"),
    text("trigger_evidence", "what was seen"),
    text("trigger_confidence", "`observed`: a frame says so; `inferred`: concluded from silence or order"),
    texts("members_before", "member ids of the generation before; null if it was not seen"),
    texts("members_after", "member ids of this one"),
    text("leader", "member id; null in KIP-848 groups"),
    text("protocol_name", "assignor"),
    text(
        "stw_kind",
        "what the stop-the-world times of this row are: `eager` (first JoinGroup to SyncGroup answer: nothing is "
        "read; or longer, for partitions of a member that is gone: from the moment it left or was last heard of), "
        "`cooperative` and `consumer` (a partition that moved: from the moment its owner had to give it "
        "up, left or sent its last request, to the moment the new owner received it)",
    ),
    millis("stw_ms_max", "longest of the members' `stw_ms`; null if no member stopped"),
    millis("stw_ms_avg", "mean of the members' `stw_ms` that are not null"),
    integer("partitions_moved", "partitions whose owner is another than the last that they had", "count"),
    flag(
        "incomplete",
        "true if a member of it never received its share, generations before it were not seen, or calls of the group "
        "were not read (lost, cut by a snap length, not decodable) since the rebalance before the one before, or after "
        "the last: the row may then be another",
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
    text("host", "address of the client"),
    moment("joined_ts", "first answer that made it a member"),
    moment("left_ts", "end of its membership; null if it was still there when the capture ended"),
    text(
        "left_how",
        "`leave`, `silent` (expired, inferred), `dropped` (not in the next generation or life), `fenced`, "
        "`suspended` (a static member of a KIP-848 group said that it will be back, epoch -2; null again once it is, "
        "under the same id), `replaced` (a static member that is back under another id, without having said so)",
    ),
    integer("session_timeout_ms", "of its JoinGroup; null in KIP-848 groups, where the broker has it", "ms"),
    integer("rebalance_timeout_ms", "of its JoinGroup or heartbeat", "ms"),
    texts("subscription", "topics of its last JoinGroup or heartbeat"),
    flag("leader", "whether it made the plan"),
    moment(
        "stopped_ts",
        "begin of the stop that `stw_ms` measures; where `resumed_ts` is null, of one that lasted when the "
        "generation or the capture ended",
    ),
    moment(
        "resumed_ts", "when it received its share; of a KIP-848 share received in steps, the end of the longest stop"
    ),
    millis("join_ms", "classic: its first JoinGroup since its last share, to its share; KIP-848: trigger to epoch"),
    millis(
        "stw_ms",
        "`resumed_ts - stopped_ts`: stop-the-world time, of the kind in `rebalances.stw_kind`; null for "
        "one that had no share yet and got none of a member that is gone",
    ),
    flag("incomplete", "true if calls of the group were not read from shortly before it joined to its end, as above"),
)

ASSIGNMENTS = _table(
    "assignments",
    "one partition of one member in one generation; of a KIP-848 epoch in the last share that the member received",
    "group_id cluster life generation member_id topic partition",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    MEMBER,
    CLIENT,
    text("topic", "topic name; `id:...` if only the id was seen"),
    integer("partition", "partition number"),
    text("from_prev_owner", "member id of the last owner before this generation, null if none was captured"),
    text("source", "`told`: in a response to the member; `planned`: only in the leader's SyncGroup"),
)

ASSIGNMENT_CHANGES = _table(
    "assignment_changes",
    "one answer that gave a member another share than it had (KIP-848, share and streams groups)",
    "group_id cluster life ts member_id",
    moment("ts", "of the answer"),
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    integer("generation", "the latest epoch that any member had received by then, to which `assignments` counts it"),
    MEMBER,
    CLIENT,
    texts("partitions", "`topic-partition`: the share from then on"),
    texts("gained", "partitions that the share before did not have"),
    texts("lost", "partitions that only the share before had"),
    millis(
        "unread_ms",
        "how long `gained` was not read: since the owner had to give it up, left or sent its last request; the "
        "longest of several partitions; null if no owner was seen before",
    ),
    flag(
        "incomplete",
        "true if calls of the group were not read since the change before, or the rebalance before the one before",
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
    text("metadata", "text that the client stored with it"),
    flag("transactional", "true for TxnOffsetCommit: it holds once the transaction commits, see `outcome`"),
    integer("error_code", "of this partition in the response; null if that was not seen"),
    text("error_name", "Kafka's name of it"),
    text(
        "outcome",
        "`committed`: the offset is the group's; `refused`: `error_code` is not 0; `aborted`: accepted in a "
        "transaction that was aborted; `unknown`: the response, or the end of the transaction, was not seen",
    ),
    moment("outcome_ts", "when the transaction ended: its EndTxn, or what fenced it; null outside of transactions"),
    text("transactional_id", "of a TxnOffsetCommit"),
    long("producer_id", "of a TxnOffsetCommit"),
    integer("producer_epoch", "of a TxnOffsetCommit"),
    long(
        "lag",
        "high watermark last seen before the commit, less the offset; null if none was seen, and for what is not the "
        "group's: `refused` or `aborted`",
        "records",
    ),
    millis("lag_age_ms", "how long before the commit that watermark was seen (Fetch, ListOffsets answers)"),
)

SHARE_RECORDS = _table(
    "share_records",
    "records of one partition that a member of a share group acquires or acknowledges with one call, by what it does",
    "group_id cluster ts topic partition member_id kind",
    moment("ts", "of the response that gives the records, or of the request that acknowledges them"),
    GROUP,
    CLUSTER,
    LIFE,
    MEMBER,
    CLIENT,
    text("topic", "topic name; `id:...` if only the id was seen"),
    integer("partition", "partition number"),
    text("kind", "`acquired`, `accepted`, `released`, `rejected`, `renewed` or `gaps` (offsets without records)"),
    long("first_offset", "of the records", "records"),
    long("records", "offsets that are acquired or acknowledged", "count"),
    integer("deliveries", "largest delivery count of the records; null for acknowledgements", "count"),
    integer("error_code", "of the acknowledgements of the partition; null if no response was seen"),
    text("error_name", "Kafka's name of it"),
)

ERRORS = _table(
    "errors",
    "one error code about one thing, of one client",
    "api_name error_code client_id cluster group_id topic partition",
    text("api_name", "Kafka's name of the API"),
    integer("error_code", "any field of a response that holds an error code other than 0"),
    text("error_name", "Kafka's name of it"),
    CLIENT,
    CLUSTER,
    text("group_id", "group of the request, if it names one"),
    text("topic", "topic that it is about, if any"),
    integer("partition", "partition that it is about, if any"),
    long("count", "responses, or places in them", "count"),
    moment("first_ts", "first of them"),
    moment("last_ts", "last of them"),
)

CLIENTS = _table(
    "clients",
    "one client id of one software on one host",
    "client_id host software_name software_version",
    CLIENT,
    text("host", "address"),
    text("software_name", "of ApiVersions v3+ on the same connection"),
    text("software_version", "of ApiVersions v3+ on the same connection"),
    long("connections", "TCP connections", "count"),
    long("calls", "requests", "count"),
    long("calls_removed_in_4", "requests in versions that Kafka 4 does not serve", "count"),
    moment("first_ts", "first request"),
    moment("last_ts", "last request"),
)

API_USAGE = _table(
    "api_usage",
    "one API in one version, as one client uses it",
    "api_key api_version client_id software_name software_version",
    integer("api_key", "of the request header"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    CLIENT,
    text("software_name", "of ApiVersions v3+ on the same connection"),
    text("software_version", "of ApiVersions v3+ on the same connection"),
    long("count", "requests", "count"),
    moment("first_ts", "first request"),
    moment("last_ts", "last request"),
    flag("removed_in_4", "true if Kafka 4.2 does not serve this version of it"),
)

LATENCY = _table(
    "latency",
    "one API in one version at one broker in one minute",
    "bucket_ts api_key api_version broker",
    moment("bucket_ts", "begin of the minute in which the request was sent"),
    integer("api_key", "of the request header"),
    text("api_name", "Kafka's name of the API"),
    integer("api_version", "of the request header"),
    text("broker", "host:port"),
    long("n", "calls with a request and a response", "count"),
    millis("p50_ms", "median, nearest rank; waiting that the client asked for (Fetch, JoinGroup) is part of it"),
    millis("p90_ms", "90th percentile, nearest rank"),
    millis("p99_ms", "99th percentile, nearest rank"),
    millis("max_ms", "longest"),
    Column(
        "histogram",
        "map<int,long>",
        "calls by the power of two below their latency in µs: 10 is 1024 to 2047 µs",
        "count",
    ),
)

VIOLATIONS = _table(
    "violations",
    "one thing that the rules of the protocol do not allow, or that deserves a look",
    "group_id cluster ts kind member_id topic partition",
    moment("ts", "when it was seen"),
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
    text("topic", "topic that it is about, if any"),
    integer("partition", "partition that it is about, if any"),
    text("detail", "what was seen, in words"),
)

PROBLEMS = _table(
    "problems",
    "packets of a file that were passed over or cut, damage in it, or a connection that could not be read in full",
    "file position reason conn_id",
    moment("ts", "last packet of the connection, or last before the damage; null of packets"),
    text("file", "the file; null of a connection"),
    long("position", "where the damage begins", "bytes"),
    text("conn_id", "id of the connection, as in `connections`; null of files"),
    text("client", "host:port"),
    text("broker", "host:port"),
    text(
        "reason",
        "packets: `not_ip`, `not_tcp`, `unknown_link`, `cut_headers`, `bad_headers`, `no_first_fragment`, `snaplen` "
        "(cut by a snap length: damage, all the same); "
        "connections: `tls`, `sasl_opaque`, `not_kafka`, `gaps` (bytes are missing), `noted`; null of other damage",
    ),
    long("packets", "packets of the file that were passed over, or cut, for this reason", "count"),
    text("note", "the reason in words, and what the reader remarked"),
    text("error", "what is damaged; null where nothing is"),
)

FINDINGS = _table(
    "findings",
    "one thing that deserves attention, found by a detector of docs/findings.md",
    "rank begin_ts finding cluster group_id client_id member_id topic partition sentence",
    integer("rank", "1 for `critical`, 2 for `warning`, 3 for `notice`"),
    text("severity", "`critical`, `warning` or `notice`"),
    text("finding", "name of the detector"),
    text("group_id", "group that it is about, if any"),
    CLUSTER,
    text("client_id", "client id that it is about, if any"),
    text("member_id", "member id that it is about, if any"),
    text("topic", "topic that it is about, if any"),
    integer("partition", "partition that it is about, if any"),
    moment("begin_ts", "first evidence"),
    moment("end_ts", "last evidence"),
    Column(
        "cost",
        "double",
        "by which findings of one severity are ordered, the largest first: how long the trouble lasted in ms, or how "
        "often it occurred",
    ),
    text("sentence", "the finding in one sentence"),
    texts("evidence", "the first 20 references to rows of other tables: `table column=value ...`; timestamps in µs"),
    integer("evidence_count", "references that there are", "count"),
)

_AS_REBALANCES = "as in `rebalances`"

WHAT_IF = _table(
    "what_if",
    "one generation of a group as it was, beside what another assignor would have made of it",
    "group_id cluster started_ts generation life protocol",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    moment("started_ts", _AS_REBALANCES),
    text("protocol_name", _AS_REBALANCES),
    text("assignor", "the one that was asked for"),
    text("stw_kind", _AS_REBALANCES),
    text("stw_kind_what_if", "the same of the assignor that was asked for"),
    integer("members", "members of the generation", "count"),
    integer("partitions", "partitions of the topics that they subscribe to", "count"),
    text(
        "sized_by",
        "where the numbers of partitions come from: `metadata` answers, `assignments` of this generation or earlier "
        "ones, or `both`; null if there are no partitions",
    ),
    integer(
        "rebalances_what_if",
        "rebalances that the other assignor would have had: 1; 2 if it needs a follow-up that the capture has not; "
        "0 for a follow-up of the capture that it does not need",
        "count",
    ),
    integer("moved", "`rebalances.partitions_moved`", "count"),
    integer("moved_what_if", "the same of what the other assignor gives", "count"),
    integer("imbalance", "partitions of the member with most, less those of the member with least", "count"),
    integer("imbalance_what_if", "the same of what the other assignor gives, after its follow-up", "count"),
    partition_millis("stopped_ms", "how long partitions were without an owner, added up"),
    partition_millis("stopped_ms_what_if", "the same of what the other assignor gives, in the times of the capture"),
    partition_millis("avoided_ms", "`stopped_ms - stopped_ms_what_if`; below 0: it would have cost more"),
    integer("elsewhere", "partitions that are not with the same member in both", "count"),
    text("note", "why the other assignor was not asked, which makes what it would have done null"),
)

WHAT_IF_ASSIGNMENTS = _table(
    "what_if_assignments",
    "one partition that a member would have in one generation, after a follow-up if it takes one",
    "group_id cluster life protocol generation member_id topic partition",
    GROUP,
    CLUSTER,
    LIFE,
    PROTOCOL,
    GENERATION,
    text("assignor", "the one that was asked for"),
    MEMBER,
    CLIENT,
    text("topic", "topic name"),
    integer("partition", "partition number"),
    text("from_prev_owner", "member id of the last owner under the other assignor, null if none"),
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
