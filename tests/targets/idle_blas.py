"""OpenBLAS starts a thread of its own, which works once and idles then, while Python sleeps."""

import json
import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = "2"

import numpy as np

numbers = np.ones((400, 400))
product = numbers @ numbers
time.sleep(0.6)
print(json.dumps({"corner": int(product[0, 0])}))
