"""HTTP requests in five languages: with Python, with curl, and in the programs around Java, Go and Node clients."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interop import programs
from interop.programs import ENVIRONMENT, LIMIT
from need import need

Requester = Callable[[str, str, Mapping[str, str], "str | None", int], "Response"]


@dataclass(frozen=True)
class Response:
    """A response: its status code and its body, or the first lines with data of a stream."""

    status: int
    body: str

    @property
    def json(self) -> Any:
        """Return the decoded JSON body."""
        return json.loads(self.body)


def of_program(family: str) -> Requester:
    """Return the requester of the program around a Kafka client (programs.py)."""

    def send(method: str, url: str, headers: Mapping[str, str], body: str | None, lines: int) -> Response:
        request = {"method": method, "url": url, "headers": dict(headers), "body": body, "lines": lines}
        return Response(**programs.asked(family).ask("http", **request))

    return send


def with_curl(method: str, url: str, headers: Mapping[str, str], body: str | None, lines: int) -> Response:
    """Send a request with curl."""
    words = [need("curl", "it is the HTTP client of the shell"), "-s", "-N", "-X", method, "-w", "\n%{http_code}", url]
    words += [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    words += [] if body is None else ["--data-binary", body]
    words += ["--max-time", str(LIMIT)]
    if lines == 0:
        output = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT).stdout
        content, _, status = output.rpartition("\n")
        return Response(int(status), content)
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        data: list[str] = []
        while len(data) < lines and (line := process.stdout.readline()):
            data += [line.rstrip("\n")] if line.startswith("data:") else []
        process.kill()
    return Response(200, "\n".join(data))


def with_python(method: str, url: str, headers: Mapping[str, str], body: str | None, lines: int) -> Response:
    """Send a request with urllib."""
    request = urllib.request.Request(url, None if body is None else body.encode(), dict(headers), method=method)
    try:
        response = urllib.request.urlopen(request, timeout=LIMIT)
    except urllib.error.HTTPError as refusal:
        return Response(refusal.code, refusal.read().decode())
    with response:
        if lines == 0:
            return Response(response.status, response.read().decode())
        data: list[str] = []
        while len(data) < lines and (line := response.readline().decode()):
            data += [line.rstrip("\n")] if line.startswith("data:") else []
        return Response(response.status, "\n".join(data))


# The HTTP client in the same language, by the family of the Kafka client that meets the faults.
REQUESTERS: dict[str, Requester] = {
    "kcat": with_curl,
    "kafka-python": with_python,
    "java": of_program("java"),
    "franz-go": of_program("franz-go"),
    "kafkajs": of_program("kafkajs"),
}
