"""The kernels against the reference: every family, every storage of keys and values, the same bits in any company."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor, ForwardBatch, PromptLogprobRow, SampleRow, StepResult
from sglang.executor.create import create_executor
from sglang.executor.native_executor import PIECE_TOKENS
from sglang.executor.pieces import pieces
from sglang.formats.ggml_types import GGMLType
from sglang.formats.raw import RawTensor
from sglang.ipc.sampling_params import parse_sampling_params
from sglang.ops.native import NativeOps, load_kernels
from unit.models.tiny import FAMILIES, VOCAB, prompt, tiny_config

SLOTS = 1024

needs_kernels = pytest.mark.skipif(load_kernels() is None, reason="the native kernels are not built")


def test_the_kernels_are_built() -> None:
    """Where the kernels are missing everything else here is skipped; that must not go unnoticed."""
    assert load_kernels() is not None or "SGLANG_NO_KERNELS" in os.environ


def build(folder: Path, **flags: Any) -> Executor:
    args = ServerArgs(model_path=str(folder), max_total_tokens=SLOTS, **flags)
    return create_executor(args, tiny_config(folder), show_progress=False)


def step(
    executor: Executor, table: np.ndarray, rows: list[tuple[int, list[int], int]], score: bool, **sample: Any
) -> StepResult:
    """``rows``: (table row, new tokens, cached length). Every row samples; ``score`` asks for all logprobs.
    ``sample``: for each row, a value of a field of its :class:`SampleRow`."""
    lengths = np.array([len(new) for _, new, _ in rows])
    cached = np.array([start for _, _, start in rows])
    places = [(line, start + place) for line, new, start in rows for place in range(len(new))]
    greedy = parse_sampling_params({"temperature": 0}, vocab_size=VOCAB)
    return executor.run(
        ForwardBatch(
            input_ids=np.array([token for _, new, _ in rows for token in new]),
            positions=np.array([place for _, place in places]),
            out_slots=np.array([table[line, place] for line, place in places], np.int64),
            query_lens=lengths,
            seq_lens=cached + lengths,
            table_rows=np.array([line for line, _, _ in rows]),
            slot_table=table,
            sample=[
                SampleRow(
                    row=row,
                    params=greedy,
                    seed=0,
                    position=0,
                    output_ids=[],
                    stop_ids=frozenset(),
                    **{name: values[row] for name, values in sample.items()},
                )
                for row in range(len(rows))
            ],
            prompt_logprobs=[
                PromptLogprobRow(row, 0, [*new[1:], 0], top_logprobs_num=0, token_ids_logprob=list(range(VOCAB)))
                for row, (_, new, _) in enumerate(rows)
                if score
            ],
        )
    )


def table() -> np.ndarray:
    return np.random.default_rng(1).permutation(SLOTS).astype(np.int32).reshape(4, 256)


def logprobs(executor: Executor, ids: list[int]) -> np.ndarray:
    """``[len(ids), VOCAB]``"""
    (scores,) = step(executor, table(), [(2, ids, 0)], True).prompt_logprobs
    return np.array([score.ids_val for score in scores])


@needs_kernels
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_logprobs_equal_the_reference(family: str, reference: Any) -> None:
    folder = reference(family)[1]
    native, torch = build(folder, kv_cache_dtype="float32"), build(folder, attention_backend="torch_native")
    assert native.report.backend == "native kernels"
    ids = prompt(100)
    assert np.abs(logprobs(native, ids) - logprobs(torch, ids)).max() < 2e-4


@needs_kernels
@pytest.mark.parametrize(("flags", "error"), [
    ({"kv_cache_dtype": "float16"}, 0.01), ({"kv_cache_dtype": "bf16"}, 0.1), ({"kv_cache_dtype": "int8"}, 0.2),
    ({"quantization": "int8"}, 0.2), ({"quantization": "int4"}, 3.0), ({"quantization": "w8a8_int8"}, 0.2),
])  # fmt: skip
def test_smaller_numbers_cost_some_precision_and_not_more(flags: Any, error: float, reference: Any) -> None:
    folder = reference("qwen2")[1]
    off = np.abs(
        logprobs(build(folder, **flags), prompt(100)) - logprobs(build(folder, kv_cache_dtype="float32"), prompt(100))
    )
    assert 1e-5 < off.max() < error


@needs_kernels
@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3"])
@pytest.mark.parametrize("flags", [{}, {"quantization": "int8", "kv_cache_dtype": "int8"}], ids=["plain", "int8"])
def test_company_and_chunks_change_no_bit(family: str, flags: Any, reference: Any) -> None:
    executor = build(reference(family)[1], **flags)
    prompts = {0: prompt(130), 1: prompt(17, seed=1), 3: prompt(64, seed=2)}
    alone = {row: step(executor, table(), [(row, ids, 0)], True).prompt_logprobs[0] for row, ids in prompts.items()}
    done, found = dict.fromkeys(prompts, 0), {row: [] for row in prompts}  # type: dict[int, int], dict[int, list[Any]]
    sizes = iter([1, 7, 40, 1, 2, 64, 13, 1, 31, 5] * 50)
    shared = table()
    while waiting := [row for row, ids in prompts.items() if done[row] < len(ids)]:
        rows = [(row, prompts[row][done[row] :][: next(sizes)], done[row]) for row in reversed(waiting)]
        result = step(executor, shared, rows, True)
        for (row, new, _), scores in zip(rows, result.prompt_logprobs, strict=True):
            found[row] += scores
            done[row] += len(new)
    for row, whole in alone.items():
        assert [score.ids_val for score in found[row]] == [score.ids_val for score in whole], row


@needs_kernels
def test_steps_of_many_pieces_equal_short_ones(reference: Any) -> None:
    """More tokens than one call takes: the last rows' tokens are those of the same rows alone."""
    executor = build(reference("llama")[1])
    rows = [(line, prompt(180, seed=line), 0) for line in range(4)]
    assert sum(len(new) for _, new, _ in rows) > PIECE_TOKENS
    together = step(executor, table(), rows, True)
    for index, row in enumerate(rows):
        alone = step(executor, table(), [row], True)
        assert together.tokens[index] == alone.tokens[0]
        assert together.prompt_logprobs[index] == alone.prompt_logprobs[0]


@needs_kernels
@pytest.mark.parametrize("length", [9, 180])
def test_masked_maxima_are_those_of_masked_logits(length: int, reference: Any) -> None:
    """The head's own argmax against the sampler's, in one piece and in several; beside rows without a mask, and with
    one that allows nothing."""
    executor = build(reference("llama")[1])
    rows = [(line, prompt(length, seed=line), 0) for line in range(4)]
    free = step(executor, table(), rows, False).tokens
    for number in range(4):
        masks: list[Any] = [np.random.default_rng(line + 4 * number).integers(-(2**31), 2**31, 4) for line in range(4)]
        masks = [mask.astype(np.int32) for mask in masks]
        masks[number] = None if number % 2 else np.zeros(4, np.int32)
        found = step(executor, table(), rows, False, mask=masks)
        drawn = step(executor, table(), rows, False, mask=masks, return_logprob=[True] * 4)
        mixed = step(executor, table(), rows, False, mask=masks, return_logprob=[True, False, True, False])
        assert found.tokens == drawn.tokens == mixed.tokens
        assert found.invalid == drawn.invalid
        if number % 2:
            assert found.tokens[number] == free[number] and found.tokens != free


def test_pieces_cover_a_step_once() -> None:
    lengths = np.array([3, 1, 9, 2])
    tokens, cached = np.arange(15), np.array([0, 5, 1, 0])
    rows, slots = np.array([7, 3, 1, 0]), np.zeros((8, 8), np.int32)
    batch = ForwardBatch(tokens, tokens, tokens, lengths, lengths + cached, rows, slots)
    found = [
        (p.begin, p.end, p.query_lens.tolist(), p.seq_lens.tolist(), p.table_rows.tolist()) for p in pieces(batch, 6)
    ]
    assert found == [
        (0, 6, [3, 1, 2], [3, 6, 3], [7, 3, 1]),
        (6, 12, [6], [9], [1]),
        (12, 15, [1, 2], [10, 2], [1, 0]),
    ]


@needs_kernels
@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_vocabulary_sized_matrices_keep_8_bits(quantization: str) -> None:
    """As embedding and head they decide the logits, where 4 bits are too rough."""
    kernels = load_kernels()
    assert kernels is not None
    ops = NativeOps(kernels, 1, quantization=quantization)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((8, 64), dtype=np.float32)

    def nbytes(name: str) -> int:
        return ops.pack([RawTensor(name, (8, 64), GGMLType.F32, lambda: values.view(np.uint8))], "auto").nbytes

    wide, narrow = nbytes("lm_head.weight"), nbytes("model.layers.0.mlp.down_proj.weight")
    assert nbytes("language_model.model.embed_tokens.weight") == wide
    assert wide == narrow if quantization == "int8" else wide > narrow
