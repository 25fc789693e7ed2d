"""A small data job: sales by region with numpy and pandas."""

import json

import numpy as np
import pandas as pd

ROWS = 1_500_000


def load():
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "region": random.integers(0, 40, ROWS),
            "amount": random.normal(100.0, 15.0, ROWS),
            "day": random.integers(0, 365, ROWS),
        }
    )


def main():
    sales = load()
    by_region = sales.groupby("region")["amount"].sum()  # LINE: groupby
    ordered = sales.sort_values("amount")  # LINE: sort
    smooth = np.convolve(ordered["amount"].to_numpy(), np.ones(200) / 200, mode="valid")  # LINE: convolve
    words = [f"{int(value)}-{index % 7}" for index, value in enumerate(smooth[:400_000])]  # LINE: words
    print(json.dumps({"regions": len(by_region), "words": len(words)}))


main()
