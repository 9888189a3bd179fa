"""The files in fixtures/ are documented and small, and are reproduced from fixtures/more if it exists."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from golden import MORE, ROOT

FRAMES, TRANSCRIPTS = MORE / "frames", MORE / "semantics"


@pytest.mark.skipif(not FRAMES.exists(), reason=f"{FRAMES} is not here: the slice cannot be made again")
def test_the_slice_can_be_made_again(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; import slice; slice.main(Path(sys.argv[1]), Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, str(FRAMES), str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT / "fixtures", capture_output=True)
    made = {path.relative_to(tmp_path): gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.gz")}
    folders = [ROOT / "fixtures" / name for name in ("frames", "blobs")]
    paths = [path for folder in folders for path in folder.glob("*.gz")]
    kept = {path.relative_to(ROOT / "fixtures"): gzip.decompress(path.read_bytes()) for path in paths}
    assert made.keys() == kept.keys()
    assert [path for path in made if made[path] != kept[path]] == []


@pytest.mark.skipif(not TRANSCRIPTS.exists(), reason=f"{TRANSCRIPTS} is not here: nothing to take conversations from")
def test_the_conversations_can_be_taken_again(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; import take; take.main(list(Path(sys.argv[1]).glob('*__kafka-*.json')), Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, str(TRANSCRIPTS), str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT / "fixtures" / "conversations")
    made = {path.relative_to(tmp_path): gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.gz")}
    assert len(made) == 94
    kept = {name: gzip.decompress((ROOT / "fixtures" / "conversations" / name).read_bytes()) for name in made}
    assert [name for name in made if made[name] != kept[name]] == []


def test_every_script_is_recorded_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "oracle")
    for path in (ROOT / "tests" / "oracle").glob("*scripts.py"):
        import_module(path.stem)
    scripts = import_module("script").SCRIPTS
    folder = ROOT / "fixtures" / "conversations"
    listed = set((folder / "README.md").read_text("utf-8").splitlines())
    for script in scripts:
        assert f"| `{script.name}` | {' '.join(script.releases)} | {script.doc} |" in listed
        for release in script.releases:
            recorded = json.loads(gzip.decompress((folder / release / f"{script.name}.json.gz").read_bytes()))
            assert (recorded["scenario"], recorded["doc"]) == (script.name, script.doc)


def test_the_slice_of_captures_is_small() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "fixtures" / "captures").iterdir()]
    assert len(sizes) == 16
    assert sum(sizes) < 400_000
