"""The commands ``mockbroker ctl topics``: list, create and delete topics, read and append records."""

from __future__ import annotations

from typing import Any

import click

from kwire.counted import counted
from mockbroker.cli import completion
from mockbroker.cli.control_client import segment
from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session
from mockbroker.cli.tables import escape


@click.group("topics", cls=CtlGroup)
def command() -> None:
    """List, create and delete topics; read and append records. The default command is list."""


@command.command("list")
@pass_session
def list_(session: Session) -> None:
    """List the topics. RECORDS is the sum of the end offsets minus the start offsets, LEADERS the leading brokers."""
    answer = session.client.pages("/v1/topics")
    rows = [
        (
            each["name"],
            len(each["partitions"]),
            sum(part["end"] - part["start"] for part in each["partitions"]),
            ",".join(map(str, sorted({part["leader"] for part in each["partitions"]}))),
        )
        for each in answer["items"]
    ]
    session.show_table(answer, ("TOPIC", "PARTITIONS", "RECORDS", "LEADERS"), rows)


@command.command("create")
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), help="Number of partitions (default: num.partitions).")
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="Set a topic setting, by Kafka's name. Repeatable.")
@pass_session
def create(session: Session, topic: str, partitions: int | None, config: tuple[str, ...]) -> None:
    """Create a topic."""
    body: dict[str, Any] = {"name": topic}
    if partitions is not None:
        body["partitions"] = partitions
    for text in config:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--config {escape(text)}: expected KEY=VALUE")
        body.setdefault("config", {})[name] = value
    answer = session.client.ask("POST", "/v1/topics", body=body)
    session.show(answer, f"created {escape(answer['name'])} with {counted(len(answer['partitions']), 'partition')}")


@command.command("delete")
@click.argument("topic", shell_complete=completion.topics)
@pass_session
def delete(session: Session, topic: str) -> None:
    """Delete a topic with its records."""
    session.client.ask("DELETE", f"/v1/topics/{segment(topic)}")
    session.note(f"deleted {escape(topic)}")


@command.command("records")
@click.argument("topic", shell_complete=completion.topics)
@click.option("--partition", type=click.IntRange(0), help="Only records of this partition.")
@click.option("--offset", type=click.IntRange(0), help="Only records from this offset on.")
@click.option("--committed", is_flag=True, help="Only records that a consumer with read_committed gets.")
@pass_session
def records(session: Session, topic: str, partition: int | None, offset: int | None, committed: bool) -> None:
    """List the records of a topic, by partition and offset."""
    query = {"partition": partition, "offset": offset, "committed": committed}
    answer = session.client.pages(f"/v1/topics/{segment(topic)}/records", **query)
    rows = [
        (each["partition"], each["offset"], each["timestamp_ms"], _text(each["key"]), _text(each["value"]))
        for each in answer["items"]
    ]
    session.show_table(answer, ("PARTITION", "OFFSET", "TIMESTAMP MS", "KEY", "VALUE"), rows)


@command.command("produce")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@click.option("--key", help="Key of the records.")
@click.option("--partition", type=click.IntRange(0), help="Partition; chosen from the key if absent.")
@pass_session
def produce(session: Session, topic: str, values: tuple[str, ...], key: str | None, partition: int | None) -> None:
    """Append a record for each VALUE to a topic. Prints the offset of each."""
    fixed = {name: value for name, value in (("key", key), ("partition", partition)) if value is not None}
    body = {"records": [{"value": value, **fixed} for value in values]}
    answer = session.client.ask("POST", f"/v1/topics/{segment(topic)}/records", body=body)
    session.show(answer, "\n".join(map(str, answer["offsets"])))


@command.command("delete-records")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("partition", type=click.IntRange(0))
@click.argument("before", type=click.IntRange(-1))
@pass_session
def delete_records(session: Session, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition up to an offset.

    BEFORE is the first offset that remains; "-- -1" deletes all records.
    """
    query = {"partition": partition, "before": before}
    session.client.ask("DELETE", f"/v1/topics/{segment(topic)}/records", query=query)
    session.note(f"deleted records of partition {partition}")


@command.command("run-retention")
@click.argument("topic", shell_complete=completion.topics)
@pass_session
def run_retention(session: Session, topic: str) -> None:
    """Check the retention of a topic now. Segments that exceed retention.ms or retention.bytes are deleted."""
    answer = session.client.ask("POST", f"/v1/topics/{segment(topic)}/retention")
    starts = ", ".join(str(each["start"]) for each in answer["partitions"])
    session.show(answer, f"log start offsets: {starts}")


@command.command("compact")
@click.argument("topic", shell_complete=completion.topics)
@pass_session
def compact(session: Session, topic: str) -> None:
    """Compact a topic with cleanup.policy=compact. Its active segments are compacted too."""
    answer = session.client.ask("POST", f"/v1/topics/{segment(topic)}/compaction")
    session.show(answer, f"compacted {escape(topic)}")


@command.command("move-leader")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("partition", type=click.IntRange(0))
@click.argument("broker", type=int)
@pass_session
def move_leader(session: Session, topic: str, partition: int, broker: int) -> None:
    """Make another broker the leader of a partition."""
    path = f"/v1/topics/{segment(topic)}/partitions/{partition}/leader"
    answer = session.client.ask("POST", path, body={"broker": broker})
    session.show(answer, f"the leader of partition {answer['partition']} is broker {answer['leader']}")


@command.command("pause-replica")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("partition", type=click.IntRange(0))
@click.argument("broker", type=int)
@pass_session
def pause_replica(session: Session, topic: str, partition: int, broker: int) -> None:
    """Stop a follower from fetching. It then leaves the in-sync replicas."""
    _act_on_replica(session, topic, partition, broker, "pause")


@command.command("resume-replica")
@click.argument("topic", shell_complete=completion.topics)
@click.argument("partition", type=click.IntRange(0))
@click.argument("broker", type=int)
@pass_session
def resume_replica(session: Session, topic: str, partition: int, broker: int) -> None:
    """Let a paused replica fetch again."""
    _act_on_replica(session, topic, partition, broker, "resume")


def _act_on_replica(session: Session, topic: str, partition: int, broker: int, action: str) -> None:
    path = f"/v1/topics/{segment(topic)}/partitions/{partition}/replicas/{broker}"
    answer = session.client.ask("POST", path, body={"action": action})
    session.show(answer, f"in-sync replicas: {', '.join(map(str, answer['in_sync']))}")


def _text(data: Any) -> str | None:
    """Return a key or value of a record as text. Bytes that are not UTF-8 are returned as base64."""
    return f"base64:{data['base64']}" if isinstance(data, dict) else data
