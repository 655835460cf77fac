"""Sampling spelt out token by token in float64: slow, and independent of the code under test."""

from __future__ import annotations

import math
from collections import Counter

from sglang.sampling.rows import SampleRow


def adjusted(logits: list[float], row: SampleRow) -> list[float]:
    """Logits after penalties, mask and bias."""
    params = row.params
    counts = Counter(row.output_ids)
    result = []
    for token, value in enumerate(logits):
        if token in counts:
            value -= params.frequency_penalty * counts[token] + params.presence_penalty
        if row.position < params.min_new_tokens and token in row.stop_ids:
            value = -math.inf
        if token in counts:
            value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        value += (params.logit_bias or {}).get(token, 0.0)
        result.append(value)
    return result


def log_softmax(logits: list[float], temperature: float = 1.0) -> list[float]:
    scaled = [value / temperature for value in logits]
    peak = max(scaled)
    total = math.fsum(math.exp(value - peak) for value in scaled)
    return [value - peak - math.log(total) for value in scaled]


def kept(logprobs: list[float], top_k: int, top_p: float, min_p: float) -> list[int]:
    """Tokens that survive the filters, by falling probability, equals by rising id."""
    order = sorted(range(len(logprobs)), key=lambda token: (-logprobs[token], token))
    largest = math.exp(logprobs[order[0]])
    before = 0.0
    survivors = []
    for place, token in enumerate(order):
        probability = math.exp(logprobs[token])
        if place < top_k and (top_p >= 1.0 or before <= top_p) and probability >= min_p * largest:
            survivors.append(token)
        before += probability
    return survivors


def distribution(logits: list[float], row: SampleRow) -> dict[int, float]:
    """Probability of each token that can come out."""
    params = row.params
    logprobs = log_softmax(adjusted(logits, row), params.temperature)
    survivors = kept(logprobs, params.top_k, params.top_p, params.min_p)
    total = math.fsum(math.exp(logprobs[token]) for token in survivors)
    return {token: math.exp(logprobs[token]) / total for token in survivors}
