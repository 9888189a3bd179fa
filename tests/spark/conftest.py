"""One Spark session for all tests here: it takes ten seconds to start. Without Java, or without pyspark, they are skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from need import lacking, need
from spark.jars import DELTA, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.filterwarnings("default"))  # pyspark and py4j emit warnings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    need("java", "Spark runs on it")
    if find_spec("pyspark") is None:
        lacking("pyspark is not installed: pip install kwire[spark]")
    from pyspark.sql import SparkSession

    from kwire.spark.session import unix_sockets

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC",  # many small jobs
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(jars()),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2,2]").appName("kwire")
    for name, value in (settings | unix_sockets() | DELTA).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
