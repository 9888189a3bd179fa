"""The pipeline on Spark (extra ``kwire[spark]``); the only place that imports pyspark.

``read_frames`` gives the calls of captures as a DataFrame, and ``register`` makes the format ``kafka_pcap`` known.
"""

from kwire.extras import missing

try:
    from kwire.spark.job import read_frames
    from kwire.spark.source import register
except ModuleNotFoundError as error:
    raise missing(error, "spark") from error

__all__ = ["read_frames", "register"]
