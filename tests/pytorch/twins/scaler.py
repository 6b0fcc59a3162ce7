"""torch.amp.GradScaler on the CPU: its scale and its good steps in a row after every step, as one line of JSON.

    scaler.py STEPS OVERFLOW    OVERFLOW: the step, from 0, with gradients that are infinite
"""

import json
import sys

import torch

steps, overflow = map(int, sys.argv[1:])
scaler = torch.amp.GradScaler("cpu")
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0)
states = []
for step in range(steps):
    optimizer.zero_grad()
    scaler.scale(parameter.sum()).backward()
    if step == overflow:
        parameter.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    states.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
print(json.dumps(states))
