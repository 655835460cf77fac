"""The fake executor must answer rightly scheduled batches rightly, and show each kind of wrong schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sglang.executor.batch import ForwardBatch, PromptLogprobRow, SampleRow
from sglang.executor.fake import FakeExecutor, next_logprobs, next_token
from sglang.ipc.sampling_params import SamplingParams

VOCAB = 50
GREEDY = SamplingParams(top_k=1)


def sample_row(row: int, params: SamplingParams = GREEDY, **fields: Any) -> SampleRow:
    base: dict[str, Any] = {"seed": 3, "position": 0, "output_ids": [], "stop_ids": frozenset()}
    return SampleRow(row=row, params=params, **(base | fields))


def make_batch(
    rows: list[tuple[int, list[int], int]], table: np.ndarray, sample: list[SampleRow] | None = None
) -> ForwardBatch:
    """``rows``: (table row, new tokens, cached length)."""
    tokens = [token for _, new, _ in rows for token in new]
    positions = [cached + place for _, new, cached in rows for place in range(len(new))]
    slots = [table[line, cached + place] for line, new, cached in rows for place in range(len(new))]
    return ForwardBatch(
        input_ids=np.array(tokens, np.int64),
        positions=np.array(positions, np.int64),
        out_slots=np.array(slots, np.int64),
        query_lens=np.array([len(new) for _, new, _ in rows], np.int64),
        seq_lens=np.array([cached + len(new) for _, new, cached in rows], np.int64),
        table_rows=np.array([line for line, _, _ in rows], np.int64),
        slot_table=table,
        sample=[sample_row(row) for row in range(len(rows))] if sample is None else sample,
    )


def slot_table() -> np.ndarray:
    """Two rows of 16 positions over scattered slots 0 … 31."""
    return np.random.default_rng(4).permutation(32).astype(np.int32).reshape(2, 16)


PROMPTS = ([7, 7, 1, 9, 30], [7, 7, 2])


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_tokens_depend_on_contexts_and_not_on_how_they_were_cut(chunk: int) -> None:
    executor, table = FakeExecutor(32, VOCAB), slot_table()
    first, second = PROMPTS
    for start in range(0, len(first), chunk):
        result = executor.run(make_batch([(0, first[start : start + chunk], start)], table))
    token = result.tokens[0]
    assert token == next_token(first, sample_row(0), VOCAB)

    mixed = executor.run(make_batch([(1, second, 0), (0, [token], 5)], table))
    assert mixed.tokens == [
        next_token(second, sample_row(0), VOCAB),
        next_token([*first, token], sample_row(1), VOCAB),
    ]
    assert executor.steps == -(-len(first) // chunk) + 1


def test_shared_prefix_slots_give_the_same_tokens() -> None:
    executor, table = FakeExecutor(32, VOCAB), slot_table()
    executor.run(make_batch([(0, [5, 6, 7, 8], 0)], table))
    table[1, :3] = table[0, :3]
    assert executor.run(make_batch([(1, [9], 3)], table)).tokens == [next_token([5, 6, 7, 9], sample_row(0), VOCAB)]


def test_random_rows_depend_on_seed_and_position_and_greedy_ones_do_not() -> None:
    context, sampled = [1, 2, 3], SamplingParams()
    tokens = {
        next_token(context, sample_row(0, sampled, seed=seed, position=p), VOCAB) for seed in (1, 2) for p in (0, 1)
    }
    assert len(tokens) > 1
    assert len({next_token(context, sample_row(0, seed=seed), VOCAB) for seed in range(20)}) == 1


def test_stop_ids_wait_for_min_new_tokens() -> None:
    everything_but_5 = frozenset(range(VOCAB)) - {5}
    params = SamplingParams(top_k=1, min_new_tokens=2)
    early = sample_row(0, params, position=1, stop_ids=everything_but_5)
    assert [next_token([item], early, VOCAB) for item in range(10)] == [5] * 10
    late = sample_row(0, params, position=2, stop_ids=everything_but_5)
    assert [next_token([item], late, VOCAB) for item in range(10)] != [5] * 10


def test_logprobs_belong_to_their_position() -> None:
    executor, table = FakeExecutor(32, VOCAB), slot_table()
    prompt = [4, 8, 15, 16, 23]
    executor.run(make_batch([(0, prompt[:2], 0)], table, sample=[]))
    row = sample_row(0, return_logprob=True, top_logprobs_num=3, token_ids_logprob=[9, 2])
    batch = make_batch([(0, prompt[2:], 2)], table, sample=[row])
    batch.prompt_logprobs = [PromptLogprobRow(row=0, offset=1, targets=[23], top_logprobs_num=2)]
    result = executor.run(batch)
    assert result.logprobs == [next_logprobs(prompt, result.tokens[0], VOCAB, 3, [9, 2])]
    assert result.prompt_logprobs == [[next_logprobs(prompt[:4], 23, VOCAB, 2, None)]]
    answer = result.logprobs[0]
    assert answer is not None
    assert answer.top_val == sorted(answer.top_val or [], reverse=True)
    assert answer.logprob <= 0.0


def test_a_slot_overwritten_by_another_request_changes_the_token() -> None:
    for victim in range(4):
        executor, table = FakeExecutor(32, VOCAB), slot_table()
        executor.run(make_batch([(0, [5, 6, 7, 8], 0)], table))
        table[1, 0] = table[0, victim]
        executor.run(make_batch([(1, [40], 0)], table))
        wrong = executor.run(make_batch([(0, [9], 4)], table)).tokens
        assert wrong != [next_token([5, 6, 7, 8, 9], sample_row(0), VOCAB)]


def test_shallow_tokens_still_depend_on_the_whole_chain() -> None:
    def last_token(context: list[int]) -> int:
        executor, table = FakeExecutor(32, 10**6, deep=False), slot_table()
        executor.run(make_batch([(0, context[:-1], 0)], table))
        return executor.run(make_batch([(0, context[-1:], len(context) - 1)], table)).tokens[0]

    assert len({last_token([first, 2, 3]) for first in range(10)}) == 10


def change(attribute: str, value: Any) -> Callable[[ForwardBatch], None]:
    return lambda batch: setattr(batch, attribute, np.array(value))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (change("out_slots", [0, 32]), "must be in"),
        (change("out_slots", [-1, 3]), "must be in"),
        (change("out_slots", [3, 3]), "written twice"),
        (change("out_slots", [30, 31]), "differ from the slot table"),
        (change("positions", [3, 4]), "do not end their rows"),
        (change("query_lens", [3]), "add up to"),
        (change("query_lens", [2, 0]), "at least one new token"),
        (change("seq_lens", [4]), "do not end their rows"),
    ],
)
def test_plain_misuse_raises(spoil: Callable[[ForwardBatch], None], text: str) -> None:
    table = np.arange(32, dtype=np.int32).reshape(2, 16)
    batch = make_batch([(0, [1, 2], 0)], table, sample=[])
    spoil(batch)
    with pytest.raises(ValueError, match=text):
        FakeExecutor(32, VOCAB).run(batch)


def test_reading_what_was_never_written_or_was_given_back_raises() -> None:
    executor, table = FakeExecutor(32, VOCAB), slot_table()
    with pytest.raises(ValueError, match="never written"):
        executor.run(make_batch([(0, [1], 3)], table))
    executor.run(make_batch([(0, [1, 2, 3], 0)], table))
    executor.forget([table[0, 0]])
    with pytest.raises(ValueError, match="never written"):
        executor.run(make_batch([(0, [4], 3)], table))
