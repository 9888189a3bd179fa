"""fixtures/ can be made again from the shared frames."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from golden import ROOT, SHARED


@pytest.mark.skipif(not SHARED.exists(), reason=f"{SHARED} is not here: the slice cannot be made again")
def test_the_slice_can_be_made_again(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; import slice; slice.main(Path(sys.argv[1]), Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, str(SHARED), str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT / "fixtures", capture_output=True)
    made = {path.relative_to(tmp_path): gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*.gz")}
    kept = {p.relative_to(ROOT / "fixtures"): gzip.decompress(p.read_bytes()) for p in ROOT.glob("fixtures/[fb]*/*.gz")}
    assert made.keys() == kept.keys()
    assert [path for path in made if made[path] != kept[path]] == []
