"""DeepSpeed, ZeRO stage 1, on CPUs over gloo."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402
import torch  # noqa: E402

deepspeed.init_distributed(dist_backend="gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(19)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config={
    "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True,
    "steps_per_print": 1000000})
for step in range(4):
    inputs = torch.randn(4, 16, generator=torch.Generator().manual_seed(100 * step + rank))
    loss = (engine(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    engine.backward(loss)
    engine.step()
    print(f"RESULT rank {rank} step {step} loss {loss.item():.8g}\n", end="")
norm = sum(parameter.detach().double().norm().item() for parameter in model.parameters())
print(f"RESULT rank {rank} parameters {norm:.9g}\n", end="")
torch.distributed.barrier()
torch.distributed.destroy_process_group()
