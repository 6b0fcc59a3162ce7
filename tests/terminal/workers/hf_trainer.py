"""The Trainer of transformers with a tiny GPT-2 on the CPU: its own bar, on rank 0."""

import torch
import transformers

config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=16)
rows = [{"input_ids": torch.arange(16) % 64, "labels": torch.arange(16) % 64} for _ in range(64)]
arguments = transformers.TrainingArguments(
    output_dir="unused", max_steps=20, per_device_train_batch_size=2, logging_steps=5, save_strategy="no",
    report_to=[], use_cpu=True)
transformers.Trainer(transformers.GPT2LMHeadModel(config), arguments, train_dataset=rows).train()
