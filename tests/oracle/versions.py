"""Record the APIs and features of releases of Kafka: ``versions.py [--port] RELEASE...``.

The result of each release is written to fixtures/releases/RELEASE.json. Before 3.3, Kafka without ZooKeeper served
fewer APIs than with it, so these releases are started with ZooKeeper.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import kafka

from kwire.json.objects import to_json
from kwire.messages.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse

RELEASES = Path(__file__).parent.parent.parent / "fixtures" / "releases"
KRAFT_SINCE = "3.3"
WITH_FEATURES = 3  # the first version of ApiVersions that has features
ALL_FEATURES = 4  # the first version with supported features whose minimum level is 0
SETTLED_AFTER = 3.0  # seconds until a broker knows the features of the cluster


def ask(port: int) -> dict[str, Any]:
    result = _asked(port, WITH_FEATURES)
    versions = {str(key["api_key"]): [key["min_version"], key["max_version"]] for key in result["api_keys"]}
    if versions[str(API_VERSIONS.key)][1] >= ALL_FEATURES:
        result = _asked(port, ALL_FEATURES)
    return {
        "versions": versions,
        "supported": {
            each["name"]: [each["min_version"], each["max_version"]] for each in result.get("supported_features", [])
        },
        "features": {each["name"]: each["max_version_level"] for each in result.get("finalized_features", [])},
    }


def _asked(port: int, version: int) -> dict[str, Any]:
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        answer = kafka.exchange(connection, request, version)
    assert isinstance(answer, ApiVersionsResponse)
    return to_json(answer, version)


@contextmanager
def with_zookeeper(release: str, port: int) -> Iterator[None]:
    """Run a broker of a release before KRaft, and the ZooKeeper that it needs, on the next port."""
    run = kafka.FOLDER / f"run-{port}"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    java = ["java", "-Xmx640m", "-cp", f"{kafka.fetch(release)}/*"]
    settings: Mapping[str, object] = {
        "broker.id": 1,
        "zookeeper.connect": f"127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": run / "data",
        "offsets.topic.replication.factor": 1,
    }
    properties = run / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    keeper = ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port + 1), str(run / "keeper")]
    started = []
    try:
        with (run / "log").open("wb") as log:
            for command in (keeper, ["kafka.Kafka", str(properties)]):
                kind: dict[str, Any] = {"stdout": log, "stderr": log, "start_new_session": True}
                started.append(subprocess.Popen([*java, "-Dzookeeper.admin.enableServer=false", *command], **kind))
        until = time.monotonic() + kafka.READY_WITHIN
        while not reachable(port):
            if time.monotonic() > until:
                raise RuntimeError(f"no broker on port {port}: see {run / 'log'}")
            time.sleep(0.2)
        yield
    finally:
        for process in reversed(started):
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def reachable(port: int) -> bool:
    with closing(socket.socket()) as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def record(release: str, port: int) -> Path:
    old = tuple(map(int, release.split("."))) < tuple(map(int, KRAFT_SINCE.split(".")))
    with with_zookeeper(release, port) if old else kafka.running(release, port):
        time.sleep(SETTLED_AFTER)
        versions = ask(port)
    path = RELEASES / f"{release}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"release": release, **versions}, indent=1) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    arguments = parser.parse_args()
    for release in arguments.releases:
        print(record(release, arguments.port), flush=True)


if __name__ == "__main__":
    main()
