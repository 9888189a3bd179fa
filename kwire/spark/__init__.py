"""The pipeline on Spark (extra ``kwire[spark]``). Only this package imports pyspark.

``read_frames`` returns the requests and responses of captures as a DataFrame. ``register`` adds the data source
``kafka_pcap`` to a Spark session.
"""

from kwire.extras import missing

try:
    from kwire.spark.job import read_frames
    from kwire.spark.source import register
except ModuleNotFoundError as error:
    raise missing(error, "spark") from error

__all__ = ["read_frames", "register"]
