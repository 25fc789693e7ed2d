"""``reserving.py LIBRARY``: works with some hundred megabytes in a library that has an allocator of its own, and prints its
anonymous resident memory at the end, in bytes."""

import json
import sys


def anonymous():
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def use_duckdb():
    import duckdb

    connection = duckdb.connect()
    connection.sql("CREATE TABLE t AS SELECT range a, range * 2.5 b, (range % 1000)::VARCHAR c FROM range(10000000)")
    connection.sql("SELECT c, sum(b), count(*) FROM t GROUP BY c").fetchall()
    return connection


def use_pyarrow():
    import pyarrow
    import pyarrow.compute

    table = pyarrow.table({f"c{i}": pyarrow.array(range(500_000)) for i in range(4)})
    for i in range(40):
        table = table.append_column(f"d{i}", pyarrow.compute.multiply(table.column(i), 2.5))
    return table


kept = globals()[f"use_{sys.argv[1]}"]()
print(json.dumps({"anonymous_bytes": anonymous()}))
