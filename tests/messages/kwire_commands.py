"""Messages of the command ``kwire``."""

from __future__ import annotations

import errno
import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from captures import COMMITTED
from messages import cluster
from messages.row import Row, Run, run
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType
from tools.pcap import Talk, block, enhanced, interface, packets, pcap, section

from kwire.capture.files.blocks import Problem
from kwire.capture.limits import MAX_DAMAGES
from kwire.capture.reading import Reading
from kwire.client_properties import ClientProperties, Credentials
from kwire.fuzz.findings import HARM
from kwire.fuzz.live import Fuzzer, Healthy, Trouble
from kwire.fuzz.session import Names
from kwire.spark import plain, source, stream_source
from kwire.spark.bundles import Bundler
from kwire.spark.job import Job
from kwire.spark.output import Output
from kwire.spark.stream import Stream
from kwire.spark.stream_lock import locked
from mockbroker import run_cluster

CAPTURE = str(next(path for path in COMMITTED if "kip848" in path.name))
REQUEST = "00120000000000070000"  # ApiVersions v0
PACKETS = list(packets([*Talk().open()]))
NOT_KAFKA = pcap(PACKETS)
FRAME = {"time_us": 0, "connection": "c", "client": "a:1", "broker": "b:2", "direction": "request", "hex": REQUEST}
RECORD = {"direction": "request", "api_key": 18, "api_version": 0, "body": {}}
FINDING = {"kind": "none", "detail": "", "what": "", "seed": 0, "case": 0, "nonce": "0" * 8, "topic_id": "0" * 32, "steps": [], "form": 0}  # fmt: skip


def interface_that_fails(number: int) -> Callable[[], str]:
    """Read an interface whose socket cannot be opened, with this errno."""

    def cause() -> str:
        with patch("kwire.capture.files.packet_ring.socket.socket", side_effect=OSError(number, os.strerror(number))):
            return run("kwire capture --interface lo").stderr()

    return cause


def interface_on_another_system() -> str:
    """Read an interface where Python has no AF_PACKET."""
    with patch.object(socket, "AF_PACKET", create=True):
        del socket.AF_PACKET
        return run("kwire capture --interface lo").stderr()


def decode(line: str | bytes) -> Run:
    return run("kwire decode", stdin=line)


def without_input() -> str:
    """Encode input from a terminal."""
    with patch("click.testing._NamedTextIOWrapper.isatty", lambda _: True, create=True):
        return run("kwire encode").stderr()


def encode(**changes: Any) -> Run:
    return run("kwire encode", stdin=json.dumps(RECORD | changes))


def heartbeat(**fields: Any) -> Run:
    """Encode a Heartbeat v4 with these fields."""
    return encode(api_key=12, api_version=4, body=fields)


def blob(kind: str, **line: Any) -> Run:
    return run(f"kwire blob {kind}", stdin=json.dumps(line))


def top_of_a_gzip_stream() -> str:
    """Follow a stream that is compressed, in a separate process: it reads the file descriptor of stdin."""
    command = [sys.executable, "-m", "kwire", "top", "--metrics", "0"]
    return (
        subprocess.run(command, input=gzip.compress(NOT_KAFKA), capture_output=True, check=False)
        .stderr.decode()
        .rstrip()
    )


def capture(content: bytes, *more: str) -> Run:
    """Print a file with this content."""
    return run("kwire capture x.pcap", *more, files={"x.pcap": content})


def where(text: str) -> Run:
    return run("kwire capture", CAPTURE, "--where", text)


def frame_log(*lines: Mapping[str, Any] | str) -> Run:
    texts = [line if isinstance(line, str) else json.dumps(FRAME | dict(line)) for line in lines]
    return run("kwire capture x.jsonl", files={"x.jsonl": "\n".join(texts) + "\n"})


def pcapng(*blocks: bytes) -> Run:
    return capture(b"".join([section(), interface(), *blocks]))


def damaged_frame_log() -> Run:
    return frame_log(*["{"] * (MAX_DAMAGES + 2))


def with_limit(name: str, cause: Run) -> Callable[[], str]:
    """Run a command with a limit of 10."""

    def limited() -> str:
        with patch(name, 10):
            return cause.stderr()

    return limited


def fuzz(api: str, **options: Any) -> Callable[[], str]:
    """Fuzz a cluster with these options; without any, the shared one."""

    def start() -> str:
        with run_cluster(**options) if options else nullcontext(cluster.shared()) as target:
            return run(f"kwire fuzz {target.bootstrap_servers} --api {api}").stderr()

    return start


def fuzz_that_cannot_continue() -> str:
    """Fuzz a broker whose control group is affected and cannot be set up again."""
    prepare, prepared = Fuzzer._prepare, []

    def once(fuzzer: Fuzzer, names: Names) -> Names:
        if prepared:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        prepared.append(names)
        return prepare(fuzzer, names)

    affected = patch.object(Healthy, "_changed_topic", return_value=Trouble(HARM, "affected"))
    with patch.object(Fuzzer, "_prepare", once), affected:
        return fuzz("Heartbeat")()


def fuzz_of_a_closing_server() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_after_a_request() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1_000)

        thread = threading.Thread(target=close_after_a_request)
        thread.start()
        text = run(f"kwire fuzz 127.0.0.1:{server.getsockname()[1]}").stderr()
        thread.join()
    return text


def pipeline_that_fails(error: Exception, more: str = "") -> Callable[[], str]:
    """Run the pipeline with this error at the start of Spark."""

    def cause() -> str:
        with patch("kwire.spark.command.start", side_effect=error):
            return run(f"kwire pipeline {more} --output y --input", CAPTURE).stderr()

    return cause


def job_without_captures() -> None:
    spark: Any = None  # not used
    Job([], Output("tables"), "x").run(spark)


def job_in_place_of_a_stream() -> None:
    output = Output("tables")
    os.makedirs(output.stream_folder("x") + "/summary")
    output.require_no_stream("x")


def stream_in_another_format() -> None:
    stream = Stream(["x.pcap"], Output("tables", "json"), "x")
    stream._write_file(stream._format_file, b"parquet")
    os.makedirs(stream._summary_folder(1))
    stream._require_same_format()


def stream_that_is_running() -> None:
    folder = Stream(["x.pcap"], Output("tables"), "x").work
    with locked(folder), locked(folder):
        pass


def stream_without_summary() -> None:
    stream = Stream(["x.pcap"], Output("tables"), "x", 1_000, 60)
    stream._load_summary(3)


def stream_with_an_old_summary() -> None:
    folder = Path("tables/_stream/capture_id=x/summary/batch=3")
    folder.mkdir(parents=True)
    (folder / "summary.values").write_bytes(plain.dumps({}))
    stream_without_summary()


def groups(*arguments: str) -> Run:
    return run("kwire groups", *arguments)


def command_of_a_pipe(verb: str) -> Callable[[], str]:
    """Run a command with the path of a pipe, as ``<(zcat trace.pcap.gz)`` in a shell."""

    def cause() -> str:
        os.mkfifo("pipe")
        return run(f"kwire {verb} pipe").stderr()

    return cause


def groups_without_confluent_kafka() -> str:
    with patch.dict(sys.modules, {"confluent_kafka": None}):
        return run("kwire groups kafka://127.0.0.1:9092/frames").stderr()


def groups_of_a_topic(**fault: Any) -> str:
    """Read the groups of a topic whose only record is not part of a recording."""
    with run_cluster(topics={"frames": 1}) as cluster, patch("kwire.capture.files.topic.TIMEOUT", 1.0):
        cluster.produce("frames", [b"tea"])
        if fault:
            cluster.faults.add(times="always", **fault)
        return run(f"kwire groups kafka://{cluster.bootstrap_servers}/frames").stderr()


def groups_of_no_topic() -> str:
    with run_cluster() as cluster:
        return run(f"kwire groups kafka://{cluster.bootstrap_servers}/nope").stderr()


def unread_file(*about: Any) -> str:
    stream = stream_source.CaptureStream(["."], 1, 0.0, 0)
    (batch,) = stream.read(stream_source.Unread(0, *about))
    (row,) = batch.to_pylist()
    return str(Problem(row["path"], row["position"], row["problem"]))


ROWS = [
    Row("topic with a token for Spark", lambda: ClientProperties(credentials=Credentials("OAUTHBEARER")).of_java(), "PropertyError: sasl.mechanism=OAUTHBEARER is not supported with Spark"),
    # kwire decode
    Row("line that is not JSON", decode("{"), "<stdin>:1: invalid JSON: Expecting property name enclosed in double quotes at character 1"),
    Row("integer with too many digits", decode('{"hex": ' + "1" * 5_000 + "}"), "<stdin>:1: unsupported JSON: an integer has more than 4300 digits"),
    Row("line with nested arrays", decode('{"a": ' + "[" * 100_000), "<stdin>:1: the JSON is nested too deeply"),
    Row("JSON line that is not an object", run("kwire encode", stdin="[]"), "<stdin>:1: expected a JSON object, got an array"),
    Row("line without hex", decode("{}"), "<stdin>:1: hex: missing"),
    Row("hex that is a number", decode('{"hex": 1}'), "<stdin>:1: hex: expected hex, got a number"),
    Row("text that is not hex", decode("zz"), "<stdin>:1: hex: invalid hex digit 'z' at position 0"),
    Row("half a byte of hex", decode("123"), "<stdin>:1: hex: odd number of hex digits"),
    Row("line above the limit", with_limit("kwire.cli.lines.MAX_LINE", decode("00" * 20)), "<stdin>:1: the line is longer than the limit of 10 bytes"),
    Row("line that is not UTF-8", decode(b"\xff\n"), "<stdin>:1: invalid UTF-8: invalid start byte at byte 0 of the line"),
    Row("API key that is a string", decode('{"hex": "00", "direction": "response", "api_key": "3"}'), "<stdin>:1: api_key: expected an integer, got a string"),
    Row("response without an API version", run("kwire decode --response --api-key 3 00000000"), "<argument>:1: api_version: the key is missing: add it to the line, or use --api-version"),
    Row("direction of a frame", decode('{"hex": "00", "direction": "up"}'), "<stdin>:1: direction: expected request or response, got 'up'"),
    Row("API key that contradicts the frame", decode(f'{{"hex": "{REQUEST}", "api_key": 3}}'), "<stdin>:1: api_key: the line has 3, but the header of the frame has 18: remove api_key from the line"),
    Row("file that does not exist", run("kwire decode none.jsonl"), "Error: cannot read 'none.jsonl': No such file or directory"),
    Row("file that cannot be read", run("kwire decode /proc/self/mem"), "Error: cannot read /proc/self/mem: Input/output error"),
    Row("separated hex digits", run("kwire decode", stdin="1 2"), "<stdin>:1: hex: the two hex digits of a byte must not be separated"),
    Row("frame of 2 bytes", run("kwire decode 0012"), "<argument>:1: RequestHeader at byte 0: expected 4 bytes of API key and version, found 2"),
    # kwire encode
    Row("line that is an error", run("kwire encode", stdin='{"error": {"message": "m"}}'), "<stdin>:1: error: the line reports a decoding error and has no message: remove the line"),
    Row("API name that contradicts the key", encode(api_name="Fetch"), "<stdin>:1: api_name: the name Fetch does not match api_key 18, which is ApiVersions"),
    Row("direction to encode", encode(direction="up"), "<stdin>:1: direction: expected request or response, got 'up'"),
    Row("header that contradicts the line", encode(header={"request_api_version": 3}), "<stdin>:1: header.request_api_version: the value is 3, but api_version of the line is 0"),
    Row("API key to encode", encode(api_key=999), "<stdin>:1: api_key: unknown API key 999"),
    Row("API version to encode", encode(api_version=99), "<stdin>:1: api_version: ApiVersions has no version 99: its versions are 0-4"),
    Row("body that is an array", encode(body=[]), "<stdin>:1: body: expected an object, got an array"),
    Row("unknown field", heartbeat(nope=1), "<stdin>:1: HeartbeatRequest v4, nope: unknown field in this version"),
    Row("string that is a number", heartbeat(group_id=1), "<stdin>:1: HeartbeatRequest v4, group_id: expected a string, got 1"),
    Row("integer that is a string", heartbeat(generation_id="1"), "<stdin>:1: HeartbeatRequest v4, generation_id: expected a value of type int32, got '1'"),
    Row("tags that are an array", heartbeat(_unknown_tags=[]), "<stdin>:1: HeartbeatRequest v4, _unknown_tags: expected an object with tag numbers as keys, got []"),
    Row("tag that is not base64", heartbeat(_unknown_tags={"9": "!"}), "<stdin>:1: HeartbeatRequest v4, _unknown_tags.9: expected base64, got '!'"),
    Row("array that is an object", encode(api_key=3, api_version=1, body={"topics": {}}), "<stdin>:1: MetadataRequest v1, topics: expected an array, got {}"),
    Row("element that is a string", encode(api_key=3, api_version=1, body={"topics": ["orders"]}), "<stdin>:1: MetadataRequest v1, topics[0]: expected an object, got 'orders'"),
    Row("uuid of 3 characters", encode(api_key=3, api_version=12, body={"topics": [{"topic_id": "abc"}]}), "<stdin>:1: MetadataRequest v12, topics[0].topic_id: expected a uuid of 22 characters, got 'abc'"),
    # kwire blob
    Row("blob line without a value", blob("ConsumerProtocolSubscription"), "<stdin>:1: the line has no content: expected one of the keys hex_as_stored, hex_body or fields"),
    Row("user data without a value", blob("StickyUserData"), "<stdin>:1: the line has no content: expected one of the keys user_data_hex or fields"),
    Row("unknown assignor of user data", blob("StickyUserData", assignor="range", user_data_hex=""), "<stdin>:1: assignor: unknown assignor 'range': expected one of sticky, cooperative-sticky"),
    Row("key of another record type", blob("OffsetCommitKey", hex_as_stored="0002"), "<stdin>:1: OffsetCommitKey at byte 0: the record type is 2, but OffsetCommitKey has record type 1"),
    Row("version of a stored message", blob("OffsetCommitValue", hex_as_stored="0063"), "<stdin>:1: OffsetCommitValue at byte 0: OffsetCommitValue has no version 99: its versions are 0-4"),
    Row("version of a message to encode", blob("OffsetCommitValue", fields={}, version=99), "<stdin>:1: version: OffsetCommitValue has no version 99: its versions are 0-4"),
    Row("stored message of 1 byte", blob("OffsetCommitValue", hex_as_stored="00"), "<stdin>:1: OffsetCommitValue at byte 0: expected 2 bytes of version, found 1"),
    # kwire explain
    Row("explained frame that is truncated", run("kwire explain 0012000000000007000561"), "<argument>:1: RequestHeader v1 at byte 8, client_id: expected 5 bytes, found 1"),
    # kwire layout
    Row("version of an API", run("kwire layout JoinGroup --version 99"), "Error: JoinGroup has no version 99: its versions are 0-9"),
    Row("two forms of a layout", run("kwire layout JoinGroup --source --json"), "Error: --source and --json cannot be used together: remove one of them"),
    Row("misspelled API", run("kwire layout JionGroup"), "Error: unknown API 'JionGroup'; did you mean JoinGroup? `kwire apis` lists all"),
    Row("unknown API", run("kwire layout Nothing"), "Error: unknown API 'Nothing'; `kwire apis` lists all"),
    # kwire capture
    Row("parquet to stdout", run("kwire capture --format parquet", CAPTURE), "Error: --format parquet requires -o OUT"),
    Row("output that is the input", run("kwire capture x.pcap -o x.pcap", files={"x.pcap": b""}), "Error: 'x.pcap' is also an input file and would be overwritten: use another output file"),
    Row("folder of the output", run("kwire capture x.pcap -o none/rows", files={"x.pcap": b""}), "Error: cannot write 'none/rows': folder $FOLDER/none does not exist"),
    Row("output that cannot be opened", capture(b"", "-o", "/proc/rows"), "Error: cannot write '/proc/rows': No such file or directory"),
    Row("no input on a terminal", without_input, "Error: expected [FILE|-], or input on stdin: --help has examples; use - to type the input in this terminal"),
    Row("shell without completion", run("kwire --install-completion", environment={"SHELL": "/bin/tcsh"}), "Error: --install-completion: the shell 'tcsh' in the variable SHELL is not one of bash, zsh, fish: add the shell after the option"),
    Row("completion that cannot be written", run("kwire --install-completion fish", environment={"XDG_CONFIG_HOME": "/proc"}), "Error: --install-completion: cannot write /proc/fish: No such file or directory"),
    Row("folder without captures", run("kwire capture empty", files={"empty": None}), "Error: empty: no capture files (names ending in .pcap, .pcapng, .cap, .dmp, .jsonl, ...)"),
    Row("capture without Kafka", capture(NOT_KAFKA), "Error: no Kafka traffic in the captures"),
    Row("capture without the port", run("kwire capture --port 1", CAPTURE), "Error: no Kafka traffic with a broker at port 1 in the captures"),
    Row("empty capture", capture(b""), "x.pcap at byte 0: the file is empty"),
    Row("text as a capture", capture(b"not a capture"), "x.pcap at byte 0: not a capture (pcap, pcapng or frame log): first bytes 6e 6f 74 20 61 20 63 61"),
    Row("stream that is compressed", top_of_a_gzip_stream, "metrics at http://127.0.0.1:$PORT/metrics\n- at byte 0: stdin is not pcap or pcapng: decompress gzip with zcat, and read frame logs as files"),
    Row("stdin beside files", lambda: Reading(["-", CAPTURE]), "ValueError: stdin cannot be read together with files"),
    Row("capture of 10 bytes", capture(NOT_KAFKA[:10]), "x.pcap at byte 10: the file has 10 bytes, below the 24 bytes of a pcap header"),
    Row("capture that ends inside a record", capture(NOT_KAFKA[:-3]), "x.pcap at byte 188: the file ends inside a record (79 bytes of it are present)"),
    Row("link type", capture(pcap(PACKETS, 147)), "x.pcap: 3 packets skipped: unknown link type\nx.pcap at byte 0: unknown link type 147: its packets are skipped"),
    Row("truncated gzip", capture(gzip.compress(NOT_KAFKA, mtime=0)[:-20]), "x.pcap at byte 193: the gzip data is truncated"),
    Row("damaged gzip", capture(gzip.compress(NOT_KAFKA, mtime=0)[:40] + b"\xff" * 60), "x.pcap: 1 packet skipped: not TCP\nx.pcap at byte 111: the gzip data is truncated"),
    Row("pcapng that ends inside a block", pcapng(block(5, b"statistics")[:-3]), "x.pcap at byte 48: the file ends inside a block (21 bytes of it are present)"),
    Row("block size", pcapng(struct.pack("<III", 5, 13, 13)), "x.pcap at byte 48: invalid block size 13: expected a multiple of 4 from 12 to 16842752 bytes; skipped 12 bytes and found no further record"),
    Row("block with two sizes", pcapng(struct.pack("<IIII", 5, 16, 0, 20)), "x.pcap at byte 48: block length mismatch: 16 in the header, 20 in the trailer; skipped 16 bytes and found no further record"),
    Row("packet above its block", pcapng(block(6, struct.pack("<IIIII", 0, 0, 0, 99, 99) + bytes(4))), "x.pcap at byte 48: the packet size 99 is above the 4 bytes in its block; skipped 36 bytes and found no further record"),
    Row("packet of an unknown interface", pcapng(enhanced(0, bytes(4), 4, number=3)), "x.pcap at byte 48: packet refers to interface 3, which has no Interface Description Block; skipped 36 bytes and found no further record"),
    Row("byte-order magic", pcapng(block(0x0A0D0D0A, b"abcd")), "x.pcap at byte 48: invalid byte-order magic 61 62 63 64 in a section; skipped 16 bytes and found no further record"),
    Row("line of a frame log that is not JSON", frame_log("{ ", {}), "x.jsonl at byte 0: invalid line of a frame log: invalid JSON: Expecting property name enclosed in double quotes at character 3"),
    Row("line of a frame log without a time", frame_log('{"direction": "request", "client": "a:1", "broker": "b:2"}', {}), "x.jsonl at byte 0: invalid line of a frame log: 'time_us' is missing"),
    Row("line of a frame log with nested arrays", frame_log('{"a": ' + "[" * 100_000, {}), "x.jsonl at byte 0: invalid line of a frame log: the JSON is nested too deeply"),
    Row("line of a frame log above the limit", with_limit("kwire.capture.files.framelog.MAX_LINE", capture(b" " * 20 + b"{")), "x.pcap at byte 0: the line is longer than the limit of 10 bytes"),
    Row("many damaged lines", damaged_frame_log(), "$LINES\nx.jsonl at byte 2002: stopped after 1000 damaged places"),
    Row("direction in a frame log", frame_log({"direction": "up"}, {}), "x.jsonl at byte 0: invalid line of a frame log: direction is 'up', expected request or response"),
    Row("client in a frame log", frame_log({"client": 1}, {}), "x.jsonl at byte 0: invalid line of a frame log: client and broker must be strings"),
    Row("broker in a frame log that is not Unicode", frame_log({"broker": "\ud800:9092"}, {}), "x.jsonl at byte 0: invalid line of a frame log: client, broker and connection must be valid Unicode"),
    Row("time in a frame log", frame_log({"time_us": "now"}, {}), "x.jsonl at byte 0: invalid line of a frame log: time_us is 'now', expected an integer between -2**62 and 2**62 (microseconds since 1970)"),
    Row("unknown file system", run("kwire groups none://bucket/x.pcap"), "Error: cannot read none://bucket/x.pcap: none:// is not a supported file system: $REASON"),
    Row("address that does not exist", run("kwire groups file:///none/x.pcap"), "Error: cannot read file:///none/x.pcap: No such file or directory"),
    # kwire capture --where
    Row("filter that is not an expression", where("a ="), "Error: --where: invalid filter: invalid syntax, at character 3\n  a =\n    ^"),
    Row("long filter", where("1 or " * 3_000 + "1"), "Error: --where: the filter has 15001 characters (limit: 10000)"),
    Row("filter of many parts", where("+".join("1" * 600)), "Error: --where: the filter has 1799 parts (limit: 1000)"),
    Row("nested filter", where("-" * 9_990 + "1"), "Error: --where: invalid filter: nested too deeply"),
    Row("unknown column", where("api == 'Fetch'"), "Error: --where: unknown column api; the columns are time, file, client, broker, direction, api_key, api_name, api_version, correlation_id, client_id, size, latency_ms, error_code, body, connection, position, reason, error, raw, packets, note, at character 1\n  api == 'Fetch'\n  ^"),
    Row("unlike any column", where("x == 1"), "Error: --where: unknown column x; the columns are time, file, client, broker, direction, api_key, api_name, api_version, correlation_id, client_id, size, latency_ms, error_code, body, connection, position, reason, error, raw, packets, note, at character 1\n  x == 1\n  ^"),
    Row("number as a list", where("1 in latency_ms"), "Error: --where: latency_ms is a number; `in` needs a list or text, at character 6\n  1 in latency_ms\n       ^"),
    Row("order of null", where("latency_ms > null"), "Error: --where: null cannot be ordered: use == null or != null, at character 14\n  latency_ms > null\n               ^"),
    Row("text compared with a number", where("api_name == 3"), "Error: --where: api_name is text, but is compared with a number, at character 13\n  api_name == 3\n              ^"),
    Row("misspelled API in a filter", where("api_name == 'JionGroup'"), "Error: --where: api_name is never 'JionGroup'; did you mean JoinGroup?, at character 13\n  api_name == 'JionGroup'\n              ^"),
    Row("value that a column never has", where("direction == 'up'"), "Error: --where: direction is never 'up'; the values are request, response, at character 14\n  direction == 'up'\n               ^"),
    Row("sum in a filter", where("latency_ms + 1 > 3"), "Error: --where: 'latency_ms + 1' is not supported in a filter: use comparisons, 'in', 'and', 'or', 'not', at character 1\n  latency_ms + 1 > 3\n  ^"),
    Row("field of a column", where("api_name.length > 3"), "Error: --where: 'api_name' has no fields: only body has fields, at character 1\n  api_name.length > 3\n  ^"),
    Row("misspelled field in a filter", where("body.grup_id == 'g'"), "Error: --where: no message has a field grup_id; did you mean group_id?, at character 1\n  body.grup_id == 'g'\n  ^"),
    Row("array without an index in a filter", where("body.topics.name == 't'"), "Error: --where: topics is an array: give the index of an element, such as topics[0].name, at character 1\n  body.topics.name == 't'\n  ^"),
    # kwire anonymize
    Row("recording of an unknown form", run("kwire anonymize x.pcap -o out.txt", files={"x.pcap": b""}), "Error: -o out.txt: unknown format '.txt': use one of .jsonl, .ndjson, .pcapng"),
    Row("short key", run("kwire anonymize x.pcap -o out.jsonl --key-file key", files={"x.pcap": b"", "key": "secret"}), "Error: --key-file key: the key has 6 bytes, but at least 16 are needed"),
    Row("nothing to anonymize", run("kwire anonymize -o out.jsonl"), "Error: nothing to read: expected FILE, DIR, - for stdin, or --interface NAME"),
    Row("anonymized stdin beside a file", run("kwire anonymize - x.pcap -o out.jsonl", files={"x.pcap": b""}), "Error: - (stdin) cannot be combined with files"),
    Row("anonymized interface beside a file", run("kwire anonymize --interface lo x.pcap -o out.jsonl", files={"x.pcap": b""}), "Error: --interface lo cannot be combined with files or stdin"),
    Row("output among the inputs", run("kwire anonymize x.jsonl -o x.jsonl", files={"x.jsonl": json.dumps(FRAME) + "\n"}), "Error: 'x.jsonl' is also an input file and would be overwritten: use another output file"),
    # kwire groups, kwire report, kwire pipeline
    Row("capture that does not exist", groups("none.pcap"), "Error: cannot read none.pcap: No such file or directory"),
    Row("pipe as a capture", command_of_a_pipe("groups"), "Error: cannot read pipe: a pipe can be read only as stdin: redirect it to stdin, and use - instead of its path"),
    Row("pipe as the input of top", command_of_a_pipe("top"), "Error: cannot read pipe: a pipe can be read only as stdin: redirect it to stdin, and use - instead of its path"),
    Row("topic without confluent-kafka", groups_without_confluent_kafka, "Error: cannot read kafka://127.0.0.1:9092/frames: confluent-kafka is missing: pip install 'kwire[topic]'"),
    Row("topic of other records", groups_of_a_topic, "kafka://127.0.0.1:$PORT/frames/0 at offset 0: not a record of a recording"),
    Row("cluster that does not send records", lambda: groups_of_a_topic(api="Fetch", no_response=True), "kafka://127.0.0.1:$PORT/frames/0 at offset 0: read error: the cluster sends no record at offset 0"),
    Row("cluster that does not answer", lambda: groups_of_a_topic(api="Metadata", no_response=True), "Error: cannot read kafka://127.0.0.1:$PORT/frames: the cluster does not answer: $REASON"),
    Row("topic that does not exist", groups_of_no_topic, "Error: cannot read kafka://127.0.0.1:$PORT/nope: Broker: Unknown topic or partition"),
    Row("key log that does not exist", groups(CAPTURE, "--keylog", "none"), "Error: --keylog: cannot read none: No such file or directory"),
    Row("file that is no key log", run("kwire groups x.pcap --keylog keys", files={"x.pcap": b"", "keys": "secret\n"}), "Error: --keylog: keys is not a key log: no line has the form LABEL CLIENT_RANDOM SECRET"),
    Row("group that is not in the capture", groups(CAPTURE, "--group", "none"), "Error: group not in the captures: none (groups: g-kip848-confluent-kafka-2.16.1-r2)"),
    Row("capture without groups", Run(("kwire", "groups", "x.jsonl"), files={"x.jsonl": json.dumps(FRAME) + "\n"}), "Error: no consumer group in the captures"),
    Row("tables without rows", run("kwire report empty --html page.html", files={"empty": None, "empty/members": None}), "Error: the tables in empty have no rows"),
    Row("folder without tables", run("kwire report empty --html page.html", files={"empty": None}), "Error: empty has no tables: write them with `kwire pipeline` or `kwire groups --tables`"),
    Row("file that is not a table", run("kwire report t --html page.html", files={"t": None, "t/rebalances": None, "t/rebalances/x.parquet": b"text"}), "Error: t/rebalances is not a valid table rebalances: $REASON"),
    Row("no capture", run("kwire groups"), "Error: nothing to read: expected FILE, DIR, - for stdin, or --interface NAME"),
    Row("parts of infinite length", run("kwire groups --every inf -"), "Error: Invalid value for '--every': inf is not a finite number."),
    Row("parts of a file", run("kwire groups --every 5 x.pcap"), "Error: --every needs a stream: - for stdin, or --interface NAME"),
    Row("interface beside a file", run("kwire groups --interface lo x.pcap"), "Error: --interface lo cannot be combined with files or stdin"),
    Row("interface that does not exist", run("kwire top --interface none"), "Error: no network interface has the name none (interfaces: $NAMES)"),
    Row("interface without permission", interface_that_fails(errno.EPERM), "Error: no permission to read interface lo: run as root, give the Python interpreter the capability CAP_NET_RAW, or pipe tcpdump -i lo -U -w - to this command with the argument -"),
    Row("interface that cannot be read", interface_that_fails(errno.ENOMEM), "Error: cannot read interface lo: Cannot allocate memory"),
    Row("interface on another system", interface_on_another_system, "Error: cannot read interface lo: interfaces can be read only on Linux; elsewhere, pipe tcpdump -w - to this command"),
    Row("stdin beside a file", run("kwire groups - x.pcap", files={"x.pcap": ""}), "Error: - (stdin) cannot be combined with files"),
    Row("stdin that is not a capture", run("kwire top --once x.pcap", files={"x.pcap": "no capture"}), "x.pcap at byte 0: not a capture (pcap, pcapng or frame log): first bytes 6e 6f 20 63 61 70 74 75"),
    Row("client with requests that Kafka 4 removed", run("kwire readiness x.jsonl", files={"x.jsonl": json.dumps(FRAME | {"hex": "00020000" "00000007" "ffff" "ffffffff" "00000000"}) + "\n"}), "1 of the clients cannot use Kafka 4.2"),
    Row("threshold that does not exist", run("kwire groups", CAPTURE, "--threshold", "storm.count=3"), "Error: unknown threshold storm.count: docs/findings.md lists all thresholds"),
    Row("threshold that is not a number", run("kwire groups", CAPTURE, "--threshold", "rebalance-storm.count=many"), "Error: rebalance-storm.count=many: many is not a number"),
    Row("threshold below 0", run("kwire groups", CAPTURE, "--threshold", "rebalance-storm.count=-1"), "Error: rebalance-storm.count=-1: the threshold must be a number from 0"),
    Row("end of no stream", run("kwire pipeline --input x --output y --once"), "Error: --once requires --stream"),
    Row("topic beside a file", run("kwire pipeline --input kafka://localhost:9092/frames --input x --output y"), "Error: a topic cannot be combined with other inputs: run the command once for each"),
    Row("class archive in a missing folder", run("kwire pipeline --input x --output y --class-archive /nowhere/x.jsa"), "Error: --class-archive /nowhere/x.jsa: folder /nowhere does not exist: create it first"),
    Row("what if in a stream", run("kwire pipeline --input x --output y --stream --what-if range"), "Error: --what-if cannot be used with --stream: it needs the complete history of a group"),
    Row("pipeline without input", run("kwire pipeline --input none.pcap --output y"), "Error: cannot read none.pcap: No such file or directory"),
    Row("pipeline without captures", run("kwire pipeline --input empty --output y", files={"empty": None}), "Error: empty: no capture files (names ending in .pcap, .pcapng, .cap, .dmp, .jsonl, ...)"),
    Row("pipeline without a connector", pipeline_that_fails(AnalysisException("Failed to find data source: kafka.")), "Error: Spark failed: Failed to find data source: kafka."),
    Row("data source without a path", lambda: source.CaptureSource({}).reader(StructType()), "ValueError: kafka_pcap has no captures: pass a path to load(), or set the option inputs"),
    Row("job without captures", job_without_captures, "ValueError: the job has no captures: paths is empty"),
    Row("job in place of a stream", job_in_place_of_a_stream, "StreamedError: a stream has written the tables of x: choose another --capture-id or --output, or delete tables/_stream/capture_id=x to replace the tables and end the stream"),
    Row("stream in another format", stream_in_another_format, "StreamedError: the stream in tables/_stream/capture_id=x writes parquet: continue with --format parquet, or choose another --output"),
    Row("stream that is running", stream_that_is_running, "LockedError: another process runs the stream in tables/_stream/capture_id=x: end it, or choose another --output or --capture-id"),
    Row("stream on a Spark Connect server", run("kwire pipeline --input x --output y --stream --master sc://localhost"), "Error: --stream cannot be used with a Spark Connect server: the stream would continue after this command ends"),
    Row("pipeline without a Spark Connect server", run("kwire pipeline --output y --master sc://127.0.0.1:1 --input", CAPTURE), "Error: no Spark Connect server at 127.0.0.1:1: Connection refused"),
    Row("Spark Connect server with a wrong port", run("kwire pipeline --output y --master sc://127.0.0.1:x --input", CAPTURE), "Error: wrong address sc://127.0.0.1:x: Port could not be cast to integer value as 'x'"),
    Row("pipeline with an invalid master", pipeline_that_fails(RuntimeError("Java gateway process exited"), "--master here"), "Error: Spark did not start: Java gateway process exited; check --master here; Spark needs Java 17 (JAVA_HOME)"),
    Row("pipeline without Java", pipeline_that_fails(RuntimeError("Java gateway process exited")), "Error: Spark did not start: Java gateway process exited; Spark needs Java 17 (JAVA_HOME)"),
    Row("stream without its summary", stream_without_summary, "PlainError: file $FOLDER/tables/_stream/capture_id=x/summary/batch=3/summary.values is missing: delete tables/_stream/capture_id=x to restart the stream from scratch"),
    Row("stream with an old summary", stream_with_an_old_summary, "PlainError: file $FOLDER/tables/_stream/capture_id=x/summary/batch=3/summary.values is from an earlier release: delete tables/_stream/capture_id=x to restart the stream from scratch"),
    Row("stream of another release", lambda: plain.loads(b"text"), "PlainError: the stored state cannot be decoded by this release of kwire ($REASON): to restart a stream from scratch, delete its folder _stream/capture_id=..."),
    Row("class that a stream cannot keep", lambda: plain.dumps(Row), "PlainError: class builtins:type is not allowed in the stored state"),
    Row("class that a state must not contain", lambda: plain._class("os:system"), "PlainError: class os:system is not allowed in the stored state, which is damaged or from another release of kwire: to restart a stream from scratch, delete its folder _stream/capture_id=..."),
    Row("rows that no stage processes", lambda: list(Bundler().add({"latencies": []})), "ValueError: rows of kind latencies would be lost: this stage of the pipeline does not process them"),
    Row("class that does not exist", lambda: plain._class("kwire.errorcodes:Nope"), "PlainError: the stored state contains class kwire.errorcodes:Nope, which this release of kwire does not have: use the release that wrote the state"),
    Row("field that does not exist", lambda: plain.MADE("kwire.messages.heartbeat:HeartbeatRequest", {"nope": 1}), "PlainError: the stored state contains field nope of class kwire.messages.heartbeat:HeartbeatRequest, which this release of kwire does not have: use the release that wrote the state"),
    Row("field that a stored state lacks", lambda: plain.MADE("kwire.capture.tcp.stream:Stream", {}), "PlainError: the stored state lacks field acked of class kwire.capture.tcp.stream:Stream: it is from an earlier release of kwire. To restart a stream from scratch, delete its folder _stream/capture_id=..."),
    Row("file that arrives late in a stream", lambda: unread_file("late.pcap"), "late.pcap at byte 0: the file is not read: files with later packets were read before"),
    Row("empty file that is deleted before a stream reads it", lambda: unread_file("gone.pcap", 0, stream_source.DELETED), "gone.pcap at byte 0: the file was deleted before it was read"),
    Row("file that grows after a stream has read it", lambda: unread_file("quiet.pcap", 4096, stream_source.GROWN), "quiet.pcap at byte 4096: the file has grown after it was read, and the rest is not read: use a longer --settle"),
    # kwire fuzz
    Row("address to fuzz", run("kwire fuzz localhost"), "Error: localhost: expected HOST:PORT, such as 127.0.0.1:9092"),
    Row("API to fuzz", run("kwire fuzz localhost:9092 --api Nothing"), "Error: --api: unknown API 'Nothing'; `kwire apis` lists all"),
    Row("file that is not a finding", run("kwire fuzz localhost:9092 --replay x", files={"x": "{}"}), "Error: --replay x: the file is not a valid finding: 'steps' is missing"),
    Row("finding with nested arrays", run("kwire fuzz localhost:9092 --replay x", files={"x": "[" * 100_000}), "Error: --replay x: the file is not a valid finding: the JSON is nested too deeply"),
    Row("nonce of a finding", run("kwire fuzz localhost:9092 --replay x", files={"x": json.dumps({**FINDING, "nonce": "n"})}), "Error: --replay x: the file is not a valid finding: nonce 'n' does not have 8 ASCII characters"),
    Row("folder for findings", run("kwire fuzz localhost:9092 --save x/y", files={"x": ""}), "Error: --save: cannot write x/y: x is not a writable folder"),
    Row("replay of a finding with a seed", run("kwire fuzz localhost:9092 --replay x --seed 0", files={"x": json.dumps(FINDING)}), "Error: --replay cannot be combined with --seed"),
    Row("finding in another format", run("kwire fuzz localhost:9092 --replay x", files={"x": json.dumps(FINDING)}), "Error: --replay x: format 0 of the finding is not supported: expected 1"),
    Row("finding of an unknown kind", run("kwire fuzz localhost:9092 --replay x", files={"x": json.dumps({**FINDING, "form": 1})}), "Error: --replay x: unknown kind 'none' of the finding: expected one of crash, hang, harm, unreadable, correlation"),
    Row("API that the broker does not serve", fuzz("Vote"), "Error: the broker and kwire have no common version of Vote"),
    Row("group that cannot be joined", fuzz("Heartbeat", config={"group.min.session.timeout.ms": 900_000, "group.max.session.timeout.ms": 900_000}), "Error: a correct client cannot join a group: the broker returned INVALID_SESSION_TIMEOUT"),
    Row("server that closes connections", fuzz_of_a_closing_server, "Error: cannot prepare 127.0.0.1:$PORT for fuzzing: the broker closed the connection without a response to ApiVersionsRequest"),
    Row("host name that is not valid", run("kwire fuzz kafka..local:9092"), "Error: cannot prepare kafka..local:9092 for fuzzing: the host name is not valid"),
    Row("broker that cannot be reached", run("kwire fuzz 127.0.0.1:1"), "Error: cannot prepare 127.0.0.1:1 for fuzzing: Connection refused"),
    Row("topic that cannot be created again", fuzz_that_cannot_continue, "Error: cannot continue after case 0: Connection refused"),
]  # fmt: skip
