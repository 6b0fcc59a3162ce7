"""A program for torch.distributed.launch, which takes its local rank from its arguments, and does what all_reduce.py does."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, required=True)
parser.add_argument("--lr", type=float, required=True)
arguments = parser.parse_args()
assert arguments.local_rank == int(os.environ["LOCAL_RANK"]), arguments
assert arguments.lr == 0.1, arguments

import all_reduce  # noqa: F401,E402  it runs
