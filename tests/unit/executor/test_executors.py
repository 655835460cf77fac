"""Real weights behind the step contract: right tokens, right rows, the same bits in any company."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sglang.config.load_model_config import load_model_config
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor, ForwardBatch, PromptLogprobRow, SampleRow, StepResult
from sglang.executor.create import create_executor
from sglang.executor.host import cores
from sglang.executor.memory_plan import MemoryPlanError
from sglang.ipc.sampling_params import parse_sampling_params

SLOTS = 512
FRANCE = [504, 3575, 282, 4649, 314]  # "The capital of France is"
PARIS = [7042, 30, 198]  # " Paris.\n"


@pytest.fixture(scope="module", params=["native", "torch_native"])
def executor(request: pytest.FixtureRequest, smollm2_gguf: Path) -> Executor:
    args = ServerArgs(model_path=str(smollm2_gguf), max_total_tokens=SLOTS, attention_backend=request.param)
    return create_executor(args, load_model_config(smollm2_gguf), show_progress=False)


def tables() -> np.ndarray:
    """Four rows of 128 positions over all slots, in no order."""
    return np.random.default_rng(1).permutation(SLOTS).astype(np.int32).reshape(4, 128)


def sample_row(row: int, params: dict[str, Any], output: list[int], **fields: Any) -> SampleRow:
    return SampleRow(
        row=row,
        params=parse_sampling_params(params, vocab_size=49152),
        seed=11,
        position=len(output),
        output_ids=output,
        stop_ids=frozenset({2}),
        **fields,
    )


def step(
    executor: Executor,
    table: np.ndarray,
    rows: list[tuple[int, list[int], int]],
    sample: list[SampleRow],
    prompt_logprobs: list[PromptLogprobRow] | None = None,
) -> StepResult:
    """``rows``: (table row, new tokens, cached length)."""
    lengths = np.array([len(new) for _, new, _ in rows])
    cached = np.array([start for _, _, start in rows])
    places = [(line, start + place) for line, new, start in rows for place in range(len(new))]
    return executor.run(
        ForwardBatch(
            input_ids=np.array([token for _, new, _ in rows for token in new]),
            positions=np.array([position for _, position in places]),
            out_slots=np.array([table[place] for place in places], np.int64),
            query_lens=lengths,
            seq_lens=cached + lengths,
            table_rows=np.array([line for line, _, _ in rows]),
            slot_table=table,
            sample=sample,
            prompt_logprobs=prompt_logprobs or [],
        )
    )


def test_the_pool_and_the_report_are_as_asked(executor: Executor) -> None:
    assert executor.num_slots == SLOTS
    report = executor.report
    value_bytes = {"native kernels": 2, "torch": 4}[report.backend]
    assert (report.memory.num_slots, report.kv_cache_bytes) == (SLOTS, SLOTS * 2 * 30 * 3 * 64 * value_bytes)
    assert report.threads == cores()


def test_greedy_tokens_of_a_known_prompt(executor: Executor) -> None:
    table, output = tables(), list[int]()
    new, cached = FRANCE, 0
    for _ in PARIS:
        result = step(executor, table, [(2, new, cached)], [sample_row(0, {"temperature": 0}, output)])
        assert (result.invalid, result.logprobs, result.prompt_logprobs) == (None, None, [])
        cached += len(new)
        new = result.tokens
        output = [*output, *result.tokens]
    assert output == PARIS


def test_prompt_logprobs_come_from_the_states_before_their_targets(executor: Executor) -> None:
    whole = [*FRANCE, *PARIS]
    asked = PromptLogprobRow(row=1, offset=0, targets=whole[1:], top_logprobs_num=2, token_ids_logprob=[7042])
    (scores,) = step(executor, tables(), [(0, [9, 9, 9], 0), (1, whole, 0)], [], [asked]).prompt_logprobs
    assert [score.top_idx[0] for score in scores[4:] if score.top_idx] == PARIS
    assert [score.logprob for score in scores[4:]] == [score.top_val[0] for score in scores[4:] if score.top_val]
    # Known value: the most likely continuation is " Paris" with this log-probability; int8 activations move it a bit.
    assert scores[4].logprob == pytest.approx(
        -0.258, abs={"native kernels": 0.06, "torch": 0.02}[executor.report.backend]
    )
    assert scores[4].ids_val == [scores[4].logprob]
    assert all(score.logprob < 0 for score in scores)

    # The same positions in chunks, with an offset, next to other rows.
    table = tables()
    step(executor, table, [(3, whole[:3], 0)], [])
    later = PromptLogprobRow(row=0, offset=1, targets=whole[5:], top_logprobs_num=2, token_ids_logprob=[7042])
    (again,) = step(executor, table, [(3, whole[3:], 3), (0, [4], 0)], [], [later]).prompt_logprobs
    assert again == scores[4:]


MIXED: list[tuple[list[int], dict[str, Any], dict[str, Any]]] = [
    (FRANCE, {"temperature": 0}, {}),
    ([1, 4093], {"temperature": 0.8, "top_p": 0.9}, {"return_logprob": True, "top_logprobs_num": 3}),
    ([28] * 40, {"top_k": 20, "min_p": 0.01}, {}),
    ([7] * 7, {"temperature": 0, "frequency_penalty": 1}, {"return_logprob": True, "token_ids_logprob": [1, 2]}),
]


def generate(executor: Executor, members: list[int], count: int = 6) -> list[tuple[list[int], list[Any]]]:
    """Tokens and logprobs of some of the MIXED requests, run in one batch."""
    table = tables()
    outputs: list[list[int]] = [[] for _ in members]
    logprobs: list[list[Any]] = [[] for _ in members]
    rows = [(place, MIXED[member][0], 0) for place, member in enumerate(members)]
    for _ in range(count):
        sample = [
            sample_row(place, MIXED[member][1], outputs[place], **MIXED[member][2])
            for place, member in enumerate(members)
        ]
        result = step(executor, table, rows, sample)
        for place, token in enumerate(result.tokens):
            outputs[place].append(token)
            logprobs[place].append(result.logprobs and result.logprobs[place])
        rows = [(line, [outputs[line][-1]], cached + len(new)) for line, new, cached in rows]
    return list(zip(outputs, logprobs, strict=True))


def test_requests_answer_the_same_alone_and_in_any_order(executor: Executor) -> None:
    alone = [generate(executor, [member])[0] for member in range(len(MIXED))]
    assert generate(executor, [0, 1, 2, 3]) == alone
    assert generate(executor, [3, 1, 2, 0]) == [alone[3], alone[1], alone[2], alone[0]]
    assert len({tuple(tokens) for tokens, _ in alone}) == len(MIXED)


def test_a_step_may_sample_some_rows_only(executor: Executor) -> None:
    rows = [(0, FRANCE[:2], 0), (1, FRANCE, 0), (2, [5], 0)]
    result = step(executor, tables(), rows, [sample_row(1, {"temperature": 0}, [])])
    assert result.tokens == PARIS[:1]


def test_tokens_come_in_the_order_of_the_sample_rows(executor: Executor) -> None:
    rows = [(line, [*FRANCE, *PARIS[:line]], 0) for line in range(3)]
    greedy = [sample_row(row, {"temperature": 0}, []) for row in range(3)]
    assert step(executor, tables(), rows, greedy).tokens == PARIS
    order = [2, 0, 1]
    assert step(executor, tables(), rows, [greedy[row] for row in order]).tokens == [PARIS[row] for row in order]


def test_a_pool_that_does_not_fit_is_refused(smollm2_gguf: Path) -> None:
    args = ServerArgs(model_path=str(smollm2_gguf), max_total_tokens=1 << 40)
    with pytest.raises(MemoryPlanError, match="--max-total-tokens 1099511627776"):
        create_executor(args, load_model_config(smollm2_gguf), show_progress=False)
