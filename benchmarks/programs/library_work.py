"""Two seconds of work with a large library (torch, sklearn, transformers), then the monotonic time at which it ended.

With a second argument, a number: so many steps of that work are what pyperf's runner gets to time.
"""

import sys
import time


def torch_step():
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(300, 300) for _ in range(3)])
    optimizer, data = torch.optim.Adam(model.parameters()), torch.randn(64, 300)

    def step():
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()

    return step


def sklearn_step():
    import numpy as np
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    data = np.random.default_rng(0).normal(size=(4000, 50))
    kind = (data[:, 0] + data[:, 1] > 0).astype(int)

    def step():
        RandomForestClassifier(n_estimators=20, n_jobs=2, random_state=0).fit(data, kind)
        LogisticRegression(max_iter=200).fit(data, kind)
        PCA(5).fit(data)

    return step


def transformers_step():
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256)
    model, ids = BertModel(config), torch.randint(0, 1000, (8, 64))
    return lambda: model(input_ids=ids).last_hidden_state.sum().backward()


work = {"torch": torch_step, "sklearn": sklearn_step, "transformers": transformers_step}[sys.argv[1]]()
if len(sys.argv) > 2:
    import pyperf

    pyperf.Runner().bench_func(sys.argv[1], lambda: [work() for _ in range(int(sys.argv[2]))])
else:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        work()
    print(time.monotonic(), flush=True)
