"""Output folders whose names Spark would read as a pattern."""

from __future__ import annotations

from typing import Any

import pytest
from spark import traces

from kwire.spark.hadoop_paths import path_to_read

pytest.importorskip("pyspark")

from kwire.spark.job import Job
from kwire.spark.output import Output


def test_a_local_path_is_no_pattern() -> None:
    assert path_to_read("/a b[1]/{*}?\\") == r"/a b\[1\]/\{\*\}\?\\"
    assert path_to_read("s3://bucket/a?region=eu-west-1") == "s3://bucket/a?region=eu-west-1"


def test_other_formats_in_a_folder_with_special_characters(spark: Any, tmp_path: Any) -> None:
    Job([str(traces.COMMITTED[0])], Output(str(tmp_path / "out[1]"), "json"), "c").run(spark)
    (file,) = tmp_path.glob("out[[]1]/connections/capture_id=c/date=*/*.json")
    assert len(file.read_text().splitlines()) == len(traces.single([traces.COMMITTED[0]], "c")["connections"])
