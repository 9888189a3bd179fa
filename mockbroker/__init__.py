"""A Kafka cluster for tests, in the same process: ``run_cluster`` for any code, ``open_cluster`` for trio.

Consumer groups behave as in Apache Kafka. Public names are imported on first use: pytest loads this package in every
run, even if no test needs a broker.
"""

from kwire.lazy import lazy_names

__getattr__, __dir__ = lazy_names(globals())
