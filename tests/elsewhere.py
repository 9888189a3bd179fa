"""An object store on loopback: moto's server, which speaks S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import fs

REGION = "us-east-1"


@dataclass(frozen=True)
class Bucket:
    """A bucket of the object store."""

    name: str
    endpoint: str
    files: fs.FileSystem

    def address(self, key: str) -> str:
        """Return the address of an object, with all settings of the store."""
        return f"s3://key:secret@{self.name}/{key}?endpoint_override={self.endpoint}&scheme=http&region={REGION}"

    def put(self, key: str, data: bytes) -> None:
        with self.files.open_output_stream(f"{self.name}/{key}") as stream:
            stream.write(data)

    def get(self, key: str) -> bytes:
        with self.files.open_input_file(f"{self.name}/{key}") as raw:
            data: bytes = raw.read()
            return data

    def keys(self, folder: str) -> list[str]:
        infos = self.files.get_file_info(fs.FileSelector(f"{self.name}/{folder}", recursive=True))
        return sorted(one.path.partition("/")[2] for one in infos if one.type == fs.FileType.File)


@contextmanager
def bucket() -> Iterator[Bucket]:
    """Yield an empty bucket of a store that runs until the end of the test."""
    from moto.server import ThreadedMotoServer

    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"{host}:{port}"
        files = fs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            endpoint_override=endpoint,
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
        )
        name = f"captures-{port}"  # moto keeps its buckets after its server has stopped
        files.create_dir(name)
        yield Bucket(name, endpoint, files)
    finally:
        server.stop()
