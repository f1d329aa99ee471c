"""A small transformer learns to repeat what it reads, and one of its layers is written badly.

    PROBING=1 python examples/transformer.py

Which module takes the time, forward and backward? And what does it do there?

    probing -t <pid> config probing.torch.profiling=full
    probing -t <pid> query "SELECT module, stage, avg(duration_ms) FROM python.torch_trace
        WHERE module_type = 'Block' GROUP BY ALL ORDER BY 3 DESC LIMIT 4"
    probing -t <pid> record -d 2 -f collapsed -o -
"""

import torch
from torch import nn

WORDS, WIDTH, LENGTH, LAYERS, SLOW = 32, 64, 32, 6, 3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class AttentionWordByWord(Attention):
    """The same numbers, one word after the other: what is to be found."""

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, dim=-1)
        words = []
        for i in range(x.shape[1]):
            scores = (query[:, i : i + 1] * key[:, : i + 1]).sum(-1) / WIDTH**0.5
            words.append((scores.softmax(-1).unsqueeze(-1) * value[:, : i + 1]).sum(1))
        return torch.stack(words, 1)


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        kinds = [AttentionWordByWord if i == SLOW else Attention for i in range(LAYERS)]
        self.blocks = nn.Sequential(*[Block(kind()) for kind in kinds])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens) + self.place))


def train(model, optimizer):
    while True:
        tokens = torch.randint(WORDS, (8, LENGTH))
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformer = Transformer()
    train(transformer, torch.optim.AdamW(transformer.parameters()))
