"""SQL queries on the tables of `kwire groups CAPTURE --tables DIR`: python examples/duckdb_report.py DIR"""

import sys

import duckdb

tables = sys.argv[1]

print("The most expensive rebalances:")
duckdb.sql(
    f"""
    SELECT group_id, to_generation, trigger, trigger_client, duration_ms, stw_ms_max, partitions_moved
    FROM '{tables}/rebalances/**/*.parquet'
    ORDER BY stw_ms_max DESC NULLS LAST, started_ts
    LIMIT 10
    """  # noqa: S608
).show(max_width=200)

print("Clients that use versions which Kafka 4 does not serve:")
duckdb.sql(
    f"""
    SELECT client_id, software_name, software_version, api_name, api_version, sum("count") AS requests
    FROM '{tables}/api_usage/**/*.parquet'
    WHERE removed_in_4
    GROUP BY ALL
    ORDER BY requests DESC
    """  # noqa: S608
).show(max_width=200)
