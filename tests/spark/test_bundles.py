"""Bundles: each kind of rows has a stage that processes it."""

from __future__ import annotations

from collections import defaultdict

import pytest

pytest.importorskip("pyspark")

from kwire.analysis.clusters import Clusters
from kwire.spark import bundles, group_inputs, table_builder
from kwire.spark.bundles import Bundler, bundle
from kwire.spark.increments import Increments


def sent_to_groups(kind: str) -> None:
    list(group_inputs.send_to_groups({}, {}, {}, {}, {}, iter([bundles.batch([bundle(kind, "", [])])])))


def added(kind: str) -> None:
    list(Bundler().add(defaultdict(list, {kind: [1]})))


def converted(kind: str) -> None:
    table_builder.TableBuilder("c", {}, Clusters(())).rows({kind: [1]})


def added_to_a_state(kind: str) -> None:
    Increments("c", {}, Clusters(())).bucket(None, {"group g": {kind: [1]}}, {})


@pytest.mark.parametrize("process", [sent_to_groups, added, converted, added_to_a_state])
def test_unknown_kind_of_rows_is_an_error(process):
    with pytest.raises(ValueError, match="rows of kind latencies"):
        process("latencies")


def test_all_kinds_about_topics_are_sent_to_groups():
    for kind in bundles.FOR_GROUPS:
        sent_to_groups(kind)
