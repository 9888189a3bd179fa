"""Files by paths and by addresses; the remote file system is an S3 server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import COMMITTED
from elsewhere import Bucket, bucket

from kwire.capture import read
from kwire.capture.files.capture_file import find
from kwire.capture.files.file_systems import below, changed_at, file_system, listed, open_at, size_of

SOME = COMMITTED[:2]


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with bucket() as made:
        for path in SOME:
            made.put(f"in/deep/{path.name}", path.read_bytes())
        made.put("in/notes.txt", b"no capture")
        yield made


def test_a_file_url(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"0123456789")
    for given in (str(path), path.as_uri()):
        with open_at(given) as raw:
            raw.seek(3)
            assert raw.read(2) == b"34"
        assert size_of(given) == 10
        assert changed_at(given) == pytest.approx(path.stat().st_mtime)
    assert listed(tmp_path.as_uri(), lambda name: name.endswith(".pcap")) == [path.as_uri()]
    assert listed(f"{tmp_path.as_uri()}/*.pc?p", lambda _: True) == [path.as_uri()]


BELOW = [
    ("/a/b", "/a/b/c/d"),
    ("s3://a/b/", "s3://a/b/c/d"),
    ("s3a://a/b?region=x&scheme=http", "s3a://a/b/c/d?region=x&scheme=http"),
    ("/a?b=c", "/a?b=c/c/d"),
]


@pytest.mark.parametrize(("folder", "inside"), BELOW)
def test_below(folder: str, inside: str) -> None:
    assert below(folder, "c", "d") == inside


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        listed(f"{tmp_path.as_uri()}/none", lambda _: True)
    assert listed(f"{tmp_path.as_uri()}/none*", lambda _: True) == []
    with pytest.raises(OSError, match="is not a supported file system"):
        file_system("nowhere://x/y")


def test_an_error_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied:
        @staticmethod
        def get_file_info(_: str) -> None:
            raise OSError("AWS Error ACCESS_DENIED")

    monkeypatch.setattr("kwire.capture.files.file_systems.file_system", lambda _: (Denied, "bucket/in"))
    with pytest.raises(OSError, match="ACCESS_DENIED") as caught:
        listed("s3://bucket/in", lambda _: True)
    assert caught.value.filename == "s3://bucket/in"


def test_objects(s3: Bucket) -> None:
    folder, pattern = s3.address("in"), s3.address("in/*.pcap*")
    found = find([folder])
    assert sorted(found) == sorted(s3.address(f"in/deep/{path.name}") for path in SOME)
    assert find([pattern]) == found
    assert [size_of(path) for path in sorted(found)] == [path.stat().st_size for path in sorted(SOME)]
    here, there = (list(read(paths).calls()) for paths in (SOME, found))
    assert [(call.connection, call.number) for call in there] == [(call.connection, call.number) for call in here]
