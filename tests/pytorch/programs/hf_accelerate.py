"""accelerate: an ordinary loop, with model, optimizer and data prepared by Accelerator."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(13)
accelerator = Accelerator(cpu=True)
inputs = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs), batch_size=4)
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (batch,) in enumerate(loader):
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    everyones = accelerator.gather(loss.detach()[None])
    if accelerator.is_main_process:
        print(f"RESULT step {step} losses {[f'{value:.8g}' for value in everyones.tolist()]}\n", end="")
weight = accelerator.unwrap_model(model).weight.detach().double().norm().item()
print(f"RESULT rank {accelerator.process_index} of {accelerator.num_processes}: weight {weight:.10g}\n", end="")
accelerator.wait_for_everyone()
del model, optimizer, loader
accelerator.end_training()
