"""Record the conversations of script.SCRIPTS on a real broker: ``record.py [--release] [--port] [NAME...]``.

Each conversation is written to fixtures/conversations/<release>/, and then played against the same broker, where it
must pass.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import admin_scripts  # noqa: F401
import authorizer_scripts  # noqa: F401
import config_scripts  # noqa: F401
import connection_scripts  # noqa: F401
import consumer_scripts  # noqa: F401
import feature_scripts  # noqa: F401
import fetch_scripts  # noqa: F401
import follower_scripts  # noqa: F401
import kafka
import log_scripts  # noqa: F401
import migration_scripts  # noqa: F401
import old_scripts  # noqa: F401
import quorum_scripts  # noqa: F401
import quota_scripts  # noqa: F401
import reassignment_scripts  # noqa: F401
import repeated_scripts  # noqa: F401
import sasl_scripts  # noqa: F401
import scripts  # noqa: F401
import share_offset_scripts  # noqa: F401
import share_partition_scripts  # noqa: F401
import share_scripts  # noqa: F401
import streams_scripts  # noqa: F401
import telemetry_scripts  # noqa: F401
import token_scripts  # noqa: F401
import topic_scripts  # noqa: F401
import transaction_scripts  # noqa: F401
import trio
from prober import Prober
from script import SCRIPTS, Script

from mockbroker.lab.conform.asker import open_asker
from mockbroker.lab.conform.conversation import Conversation, load
from mockbroker.lab.conform.foreign import clear, prepare
from mockbroker.lab.conform.runner import play_file

ROOT = Path(__file__).parent.parent.parent
CONVERSATIONS = ROOT / "fixtures" / "conversations"
sys.path.insert(0, str(CONVERSATIONS))
import take  # noqa: E402

TOPICS = {"probe": 3, "probe2": 3}
RECORDED = (  # settings that are stored with every conversation
    "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "offset.metadata.max.bytes",
)
NOTICED = 0.3  # seconds after which a broker has noticed closed connections
CONFIG = {name: int(kafka.SETTINGS[name]) for name in RECORDED}


async def record(script: Script, release: str, host: str, port: int) -> Path:
    config: dict[str, object] = {**CONFIG, **script.config}
    blank = Conversation(
        scenario=script.name, release=release, doc="", config=config, topics=TOPICS, names={}, steps=[]
    )
    async with open_asker(host, port) as asker:
        await prepare(asker, blank)
    async with trio.open_nursery() as nursery:
        prober = Prober(host, port, nursery, script.name, release)
        if script.users:
            prober.sasl_port, prober.plaintext = kafka.sasl_port(port), script.plaintext
        await prober.name_topics(list(TOPICS))
        prober.begun = trio.current_time()
        await script.play(prober)
        nursery.cancel_scope.cancel()
    for connection in prober.connections.values():
        await trio.aclose_forcefully(connection.stream)
    await trio.sleep(NOTICED)
    used = {name: label for name, label in prober.names.items() if name in repr(prober.steps)}
    path = CONVERSATIONS / release / f"{script.name}.json.gz"
    take.keep(
        {
            "scenario": script.name,
            "doc": script.doc,
            "broker": f"Apache Kafka {release}",
            "broker_config": {
                **config,
                "topics": TOPICS,
                **({"brokers": script.brokers, "down": list(script.down)} if script.brokers > 1 else {}),
                **({"users": dict(script.users), "plaintext": list(script.plaintext)} if script.users else {}),
            },
            "names": used,
            "steps": prober.steps,
        },
        path,
    )
    async with open_asker(host, port) as asker:
        await clear(asker, load(path))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=kafka.NEWEST)
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    wanted = [
        s for s in SCRIPTS if arguments.release in s.releases and (not arguments.names or s.name in arguments.names)
    ]
    by_config: dict[tuple[int, tuple[int, ...], tuple[tuple[str, str], ...]], list[Script]] = {}
    for script in wanted:
        given = {name: str(value) for name, value in script.config.items()}
        settings = kafka.with_users(arguments.port, script.users) | given
        by_config.setdefault((script.brokers, script.down, tuple(settings.items())), []).append(script)
    bad = 0
    for (brokers, down, config), group in by_config.items():
        several = {"brokers": brokers, "down": down} if brokers > 1 else {}
        with kafka.running(arguments.release, arguments.port, dict(config), **several) as address:
            host, _, port = address.rpartition(":")
            for script in group:
                try:
                    path = trio.run(partial(record, script, arguments.release, host, int(port)))
                    if brokers > 1:  # such a conversation cannot be played against another cluster
                        print(f"recorded {script.name}", flush=True)
                        continue
                    sasl_port = kafka.sasl_port(int(port)) if script.users else None
                    outcome = trio.run(partial(play_file, path, (host, int(port)), sasl_port))
                except* (AssertionError, RuntimeError) as error:
                    bad += 1
                    print(f"failed   {script.name} {error.exceptions[0]!r}", flush=True)
                else:
                    bad += outcome.verdict != "ok"
                    print(f"{outcome.verdict:<8} {script.name} {outcome.detail}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
