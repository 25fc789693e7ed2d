"""A data job on some hundred megabytes: orders are grouped, merged, pivoted, and looked at for a while.

Its columns are larger than what libc keeps when it is freed (32 MiB at most). Prints the resident set, and ends without
taking the interpreter apart.
"""

import json
import os
import resource
import time

import numpy as np
import pandas as pd

ORDERS = 5_000_000
CUSTOMERS = 200_000


def orders():
    random = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "customer": random.integers(0, CUSTOMERS, ORDERS),
            "amount": random.normal(80.0, 20.0, ORDERS),
            "quantity": random.integers(1, 9, ORDERS),
            "day": random.integers(0, 730, ORDERS),
        }
    )


def customers():
    random = np.random.default_rng(12)
    names = ["customer %07d of %d" % (number, number % 97) for number in range(CUSTOMERS)]  # noqa: UP031
    return pd.DataFrame({"customer": np.arange(CUSTOMERS), "name": names, "region": random.integers(0, 40, CUSTOMERS)})


def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


def main():
    sales, buyers = orders(), customers()
    sales["total"] = sales["amount"] * sales["quantity"]
    merged = sales.merge(buyers, on="customer")  # LINE: merge
    by_region = merged.groupby(["region", "day"])["total"].agg(["sum", "mean"])  # LINE: groupby
    ordered = merged.sort_values("total")  # LINE: sort
    best = ordered.groupby("customer").tail(1)
    pivot = merged.pivot_table(index="region", columns="quantity", values="total", aggfunc="sum")
    facts = {"regions": len(pivot), "best": len(best), "days": len(by_region)}
    return (merged, ordered, best, by_region, buyers), facts


kept, facts = main()
for _ in range(6):
    time.sleep(0.1)
    kept[2].describe()
print(json.dumps({**facts, "rss_bytes": resident_bytes()}), flush=True)
os._exit(0)
