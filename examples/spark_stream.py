"""Decoded frames through a topic of the mock broker into the table that `kwire pipeline` writes.

    mvn -f tests/spark/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/jars"
    python examples/spark_stream.py CAPTURE FOLDER jars

The first line fetches Spark's Kafka connector. In a real set-up one job watches the network and writes to the topic,
and others read it; here both are streams of one process, and the broker lives beside them.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

from kwire.analysis.columns import spark_schema
from kwire.analysis.tables import FRAMES
from kwire.spark import read_frames
from mockbroker import run_cluster

EXACT = "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")"


def stream(spark: SparkSession, capture: str, folder: str) -> None:
    """Send the frames of a capture through a topic, and write them as Parquet into a folder."""
    with run_cluster(topics={"frames": 3}) as cluster:
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}

        frames = read_frames(spark, capture)
        messages = frames.selectExpr("conn_id AS key", f"to_json(struct(*), {EXACT}) AS value")
        messages.write.format("kafka").options(**servers, topic="frames").save()

        topic = spark.readStream.format("kafka").options(**servers, subscribe="frames", startingOffsets="earliest")
        schema, exact = spark_schema(FRAMES), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
        decoded = topic.load().select(from_json(col("value").cast("string"), schema, exact).alias("frame"))
        table = decoded.select("frame.*").writeStream.format("parquet").option("path", f"{folder}/frames")
        query = table.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()

    spark.read.parquet(f"{folder}/frames").groupBy("api_name").count().orderBy("api_name").show(50)


if __name__ == "__main__":
    capture, folder, jars = sys.argv[1:]
    connector = ",".join(map(str, Path(jars).glob("*.jar")))
    stream(SparkSession.builder.master("local[2]").config("spark.jars", connector).getOrCreate(), capture, folder)
