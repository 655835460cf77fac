"""When a step fails: find the requests whose data caused it, so that only they end.

Running a row again is safe: it writes the same values to the same KV slots, and random draws are keyed by position.
"""

from __future__ import annotations

from dataclasses import replace

from sglang.executor.batch import Executor, ForwardBatch, StepResult, TokenLogprobs
from sglang.processes.scheduler.request import mistake

DATA_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a request's data can cause. Anything else (memory, operating system, device) is nobody's data."""


def run_row_by_row(executor: Executor, batch: ForwardBatch, error: Exception) -> tuple[StepResult, dict[int, str]]:
    """Run every row of a failed batch alone. Returns the joint result, placeholders for the rows that failed again,
    and row → message for those.

    Raises ``error`` itself when it can't be pinned to requests: no row runs, or it is no error that data can cause.
    """
    if not isinstance(error, DATA_ERRORS):
        raise error
    results: list[StepResult | None] = []
    failed: dict[int, str] = {}
    for row in range(len(batch.query_lens)):
        try:
            results.append(executor.run(single_row(batch, row)))
        except DATA_ERRORS as cause:
            results.append(None)
            failed[row] = mistake(cause)
    if len(failed) == len(results) > 1:
        raise error
    return _join(batch, results), failed


def single_row(batch: ForwardBatch, row: int) -> ForwardBatch:
    """A batch of one row of ``batch``."""
    end = int(batch.query_lens[: row + 1].sum())
    tokens = slice(end - int(batch.query_lens[row]), end)
    here = slice(row, row + 1)
    return ForwardBatch(
        input_ids=batch.input_ids[tokens],
        positions=batch.positions[tokens],
        out_slots=batch.out_slots[tokens],
        query_lens=batch.query_lens[here],
        seq_lens=batch.seq_lens[here],
        table_rows=batch.table_rows[here],
        slot_table=batch.slot_table,
        sample=[replace(sample, row=0) for sample in batch.sample if sample.row == row],
        prompt_logprobs=[replace(asked, row=0) for asked in batch.prompt_logprobs if asked.row == row],
    )


def _join(batch: ForwardBatch, results: list[StepResult | None]) -> StepResult:
    tokens, invalid = [], []
    logprobs: list[TokenLogprobs | None] = []
    for sample in batch.sample:
        result = results[sample.row]
        tokens.append(result.tokens[0] if result else 0)
        invalid.append(bool(result and result.invalid and result.invalid[0]))
        logprobs.append(result.logprobs[0] if result and result.logprobs else None)
    scored: list[list[TokenLogprobs]] = []
    for asked in batch.prompt_logprobs:
        result = results[asked.row]
        scored.append(result.prompt_logprobs[0] if result else [])
    return StepResult(tokens=tokens, invalid=invalid, logprobs=logprobs, prompt_logprobs=scored)
