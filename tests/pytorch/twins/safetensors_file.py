"""Reads and writes safetensors files, for interpreters that have torch but neither safetensors nor numpy."""

import ctypes
import json
import math
import struct

import torch

TYPES = {"F32": torch.float32, "I64": torch.int64}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def read(path):
    """The tensors of a file by name."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    table = json.loads(data[8:8 + length])
    table.pop("__metadata__", None)

    def tensor(entry):
        first = 8 + length + entry["data_offsets"][0]
        flat = torch.frombuffer(data, dtype=TYPES[entry["dtype"]], count=math.prod(entry["shape"]), offset=first)
        return flat.reshape(entry["shape"])

    return {name: tensor(entry) for name, entry in table.items()}


def write(path, tensors):
    table = {}
    end = 0
    for name, tensor in tensors.items():
        first, end = end, end + tensor.numel() * tensor.element_size()
        table[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [first, end]}
    header = json.dumps(table).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for tensor in tensors.values():
            file.write(bytes_of(tensor))


def bytes_of(tensor):
    """The elements, row-major."""
    whole = tensor.detach().contiguous()
    return ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size())
