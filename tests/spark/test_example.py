"""The example that sends frames through a topic."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location

import pytest
from spark import traces

pytest.importorskip("pyspark")


def test_frames_through_a_topic(spark, tmp_path):
    spec = spec_from_file_location("spark_stream", traces.ROOT / "examples" / "spark_stream.py")
    assert spec is not None
    assert spec.loader is not None
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    capture = traces.COMMITTED[0]
    example.stream(spark, str(capture), str(tmp_path))
    result = traces.rows("frames", spark.read.parquet(str(tmp_path / "frames")))
    assert result == traces.single([capture], capture.name)["frames"]
