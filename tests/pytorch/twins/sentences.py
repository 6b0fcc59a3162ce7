"""The generated sentences of `train` (trainer/data/sentences.hpp) in Python, number for number."""

import torch
from folder import HELD_OUT, TRAIN

SEED = 21
MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15

COMMA, STOP, OVERALL = 4, 5, 6
ARTICLES, NOUNS, VERBS = range(7, 11), range(11, 23), range(23, 29)
NEGATIONS, ADVERBS = range(29, 32), range(32, 38)
ADJECTIVES = range(46, 54), range(38, 46)  # against, in favour
PLAIN_ADJECTIVES = range(54, 62)
VOCABULARY = 62
SHORTEST, CLAUSE_MOST = 12, 8


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class Stream:
    def __init__(self, seed, index):
        self.state = mix(mix(seed + STEP & MASK) ^ index)

    def below(self, count):
        self.state = self.state + STEP & MASK
        return mix(self.state) % count

    def of(self, kind):
        return kind[self.below(len(kind))]


def make_clause(stream, counts):
    tokens = [OVERALL] if counts else []
    tokens += [stream.of(kind) for kind in (ARTICLES, NOUNS, VERBS)]
    negated = stream.below(3 if counts else 8) == 0
    if negated:
        tokens.append(stream.of(NEGATIONS))
    if stream.below(2) == 0:
        tokens.append(stream.of(ADVERBS))
    if not counts:
        return [*tokens, stream.of(PLAIN_ADJECTIVES)], None
    adjective = stream.below(2)
    tokens.append(stream.of(ADJECTIVES[adjective]))
    return tokens, adjective ^ negated


def make_sentence(index, longest):
    stream = Stream(SEED, index)
    tokens = SHORTEST + stream.below(longest - SHORTEST + 1)
    clauses = 1 + (tokens - SHORTEST) // CLAUSE_MOST
    counts = stream.below(clauses)
    sentence, label = [0], None
    for i in range(clauses):
        clause, opinion = make_clause(stream, i == counts)
        sentence += [COMMA] * (i > 0) + clause
        if i == counts:
            label = opinion
    return [*sentence, STOP, 2], label


class Sentences:
    """Both sets. A batch is as wide as its longest text, rounded up to 32; its padding is token 1."""

    shape = VOCABULARY

    def __init__(self, count, longest):
        numbers = {TRAIN: range(count), HELD_OUT: range(count, count + -(-count // 4))}
        made = {name: [make_sentence(i, longest) for i in indices] for name, indices in numbers.items()}
        self.texts = {name: [tokens for tokens, _ in texts] for name, texts in made.items()}
        self.labels = {name: torch.tensor([label for _, label in texts]) for name, texts in made.items()}

    def batch(self, name, indices, epoch=0):
        texts = [self.texts[name][i] for i in indices]
        width = -(-max(map(len, texts)) // 32) * 32
        return torch.tensor([text + [1] * (width - len(text)) for text in texts]), self.labels[name][indices]

    def count(self, name):
        return len(self.texts[name])
