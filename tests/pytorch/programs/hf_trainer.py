"""transformers.Trainer with a small GPT-2 built from its configuration."""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(50, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if state.is_world_process_zero and "loss" in (logs or {}):
            print(f"RESULT step {state.global_step} loss {logs['loss']}\n", end="")


set_seed(11)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(output_dir="out", max_steps=6, per_device_train_batch_size=4, learning_rate=1e-3,
                              logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, seed=11)
trainer = Trainer(model=model, args=arguments, train_dataset=Numbers(), callbacks=[Losses()])
trainer.train()
norm = sum(parameter.detach().double().norm().item() for parameter in model.parameters())
print(f"RESULT rank {os.environ['RANK']} parameters {norm:.9g}\n", end="")
if torch.distributed.is_initialized():
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
