"""What the orders of each region were worth, from a table of a million (or as told) made-up orders."""

import sys

import numpy as np
import pandas as pd

REGIONS = 1_000
COLUMNS = ["shipping", "amount", "tax"]


def orders(count: int) -> pd.DataFrame:
    chance = np.random.default_rng(7)
    columns = {name: chance.random(count) for name in ("amount", "discount", "tax", "shipping")}
    return pd.DataFrame({"region": chance.integers(0, REGIONS, count), **columns})


def worth(table: pd.DataFrame) -> dict[int, float]:
    """The sum of the amounts, by region."""
    found = {}
    for region in range(REGIONS):
        found[region] = table[COLUMNS][table["region"] == region]["amount"].sum()
    return found


def main(count: int) -> None:
    table = orders(count)
    values = worth(table)
    best = max(values, key=lambda region: values[region])
    print(f"{len(values)} regions, {sum(values.values()):.2f} in all, the best is region {best}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
