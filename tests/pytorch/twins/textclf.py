"""textclf of `train` in PyTorch (trainer/model/textclf.cpp): RoBERTa in transformers' names, and its head for classes."""

import math

import torch
from dropout import Dropout
from torch import nn
from torch.nn import functional

POSITIONS = 512
SIZES = {"tiny": (2, 128, 2, 512), "base": (12, 768, 12, 3072), "large": (24, 1024, 16, 4096)}


class Embeddings(nn.Module):
    def __init__(self, vocabulary, channels, dropout):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, channels, padding_idx=1)
        self.position_embeddings = nn.Embedding(POSITIONS + 2, channels, padding_idx=1)
        self.token_type_embeddings = nn.Embedding(1, channels)
        self.LayerNorm = nn.LayerNorm(channels)
        self.dropout = Dropout(dropout, 0)

    def forward(self, tokens):
        real = tokens != 1
        positions = torch.cumsum(real, 1) * real + 1
        x = self.word_embeddings(tokens) + self.token_type_embeddings(torch.zeros_like(tokens))
        x = self.LayerNorm(x + self.position_embeddings(positions))
        return self.dropout(x, (POSITIONS, x.shape[-1]))


class SelfAttention(nn.Module):
    def __init__(self, channels, heads, dropout, number):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(channels, channels) for _ in range(3))
        self.dropout = Dropout(dropout, number)

    def forward(self, x, padding, queries):
        """Of the first `queries` tokens."""
        query, key, value = (linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                             for linear in (self.query, self.key, self.value))
        scores = query[:, :, :queries] @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        probabilities = scores.masked_fill(padding[:, None, None], -math.inf).softmax(-1)
        probabilities = self.dropout(probabilities, (self.heads, POSITIONS, POSITIONS))
        return (probabilities @ value).transpose(1, 2).flatten(2)


class Output(nn.Module):
    def __init__(self, inputs, channels, dropout, number):
        super().__init__()
        self.dense = nn.Linear(inputs, channels)
        self.LayerNorm = nn.LayerNorm(channels)
        self.dropout = Dropout(dropout, number)

    def forward(self, x, residual):
        whole = (POSITIONS if x.shape[1] > 1 else 1, residual.shape[-1])
        return self.LayerNorm(self.dropout(self.dense(x), whole) + residual)


class Layer(nn.Module):
    """The last one computes the first token alone: the head reads no other."""

    def __init__(self, index, sizes, dropout):
        super().__init__()
        layers, channels, heads, inner = sizes
        self.is_last = index + 1 == layers
        self.attention = nn.ModuleDict({"self": SelfAttention(channels, heads, dropout, 3 * index + 1),
                                        "output": Output(channels, channels, dropout, 3 * index + 2)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(channels, inner)})
        self.output = Output(inner, channels, dropout, 3 * index + 3)

    def forward(self, x, padding):
        queries = 1 if self.is_last else x.shape[1]
        mixed = self.attention["output"](self.attention["self"](x, padding, queries), x[:, :queries])
        return self.output(functional.gelu(self.intermediate["dense"](mixed)), mixed)


class Head(nn.Module):
    def __init__(self, layers, channels, classes, dropout):
        super().__init__()
        self.dense = nn.Linear(channels, channels)
        self.out_proj = nn.Linear(channels, classes)
        self.dropouts = nn.ModuleList(Dropout(dropout, 3 * layers + number) for number in (1, 2))

    def forward(self, x):
        first, second = self.dropouts
        return self.out_proj(second(torch.tanh(self.dense(first(x)))))


class TextClassifier(nn.Module):
    def __init__(self, vocabulary, classes=2, dropout=0.1, size="tiny"):
        super().__init__()
        sizes = layers, channels, _, _ = SIZES[size]
        stack = nn.ModuleList(Layer(index, sizes, dropout) for index in range(layers))
        self.roberta = nn.ModuleDict({"embeddings": Embeddings(vocabulary, channels, dropout),
                                      "encoder": nn.ModuleDict({"layer": stack})})
        self.classifier = Head(layers, channels, classes, dropout)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        padding = tokens == 1
        x = self.roberta["embeddings"](tokens)
        for layer in self.roberta["encoder"]["layer"]:
            x = layer(x, padding)
        return self.classifier(x[:, 0])
