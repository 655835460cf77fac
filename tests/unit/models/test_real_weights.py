"""The law on real shapes, where BLAS has the most kernels to choose from."""

from __future__ import annotations

import torch

from sglang.config.load_model_config import load_model_config
from sglang.models.registry import model_class
from unit.models.tiny import Runner, load_model, prompt


def test_smollm2_gives_the_same_bits_in_any_company(smollm2_gguf):
    config = load_model_config(smollm2_gguf, dtype="float32")
    model = load_model(config, model_class(config.architecture))
    ids = prompt(90)
    alone = model.logits(Runner(model).step({0: ids})[0])
    shared = Runner(model, seed=1)
    sizes, pieces = [1, 50, 3, 1, 1, 17, 1, 1, 15], []
    for number, size in enumerate(sizes):
        others = {row: prompt(1 + (row * number) % 12, seed=row) for row in range(1, 2 + number)}
        done = shared.lengths[0]
        pieces.append(shared.step({**others, 0: ids[done : done + size]})[0])
    assert shared.lengths[0] == 90
    assert torch.equal(model.logits(torch.cat(pieces)), alone)
    single = torch.cat([model.logits(row[None]) for row in torch.cat(pieces)[-3:]])
    assert torch.equal(single, alone[-3:])
