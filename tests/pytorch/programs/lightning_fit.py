"""Lightning with strategy="ddp": it finds the launcher's ranks by TorchElasticEnvironment."""

import os

import lightning
import torch


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 1)

    def training_step(self, batch, index):
        (inputs,) = batch
        loss = (self.layer(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        print(f"RESULT rank {self.global_rank} step {index} loss {loss.item():.8g}\n", end="")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(17)
samples = torch.utils.data.TensorDataset(torch.randn(64, 12, generator=torch.Generator().manual_seed(2)))
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp",
                            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
model = Regression()
trainer.fit(model, torch.utils.data.DataLoader(samples, batch_size=8))
environment = type(trainer.strategy.cluster_environment).__name__
weight = model.layer.weight.detach().double().norm().item()
print(f"RESULT rank {trainer.global_rank} of {trainer.world_size}, {environment}: weight {weight:.10g}\n", end="")
