"""The random stream: known values, range, and independence of neighbouring streams."""

from __future__ import annotations

import math

from sglang.sampling.uniform import GOLDEN_GAMMA, MASK, mix64, random_bits, uniform


def test_mix64_is_the_published_splitmix64_finaliser() -> None:
    # First outputs of the published SplitMix64 generator for the state 1234567.
    state, outputs = 1234567, []
    for _ in range(5):
        state = (state + GOLDEN_GAMMA) & MASK
        outputs.append(mix64(state))
    assert outputs == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_streams_never_change_between_versions() -> None:
    assert [random_bits(42, position) for position in range(3)] == [
        14306847890909893226,
        27668455834413438,
        64591033794190828,
    ]
    assert [uniform(0, 0), uniform(0, 1), uniform((1 << 63) - 1, 7)] == [
        0.11703298039315368,
        0.7306908801127457,
        0.820883018581455,
    ]


def test_extreme_seeds_stay_inside_the_open_interval() -> None:
    for seed in (0, 1, -1, -(1 << 63), (1 << 63) - 1, 1 << 70):
        for position in (0, 1, 10**6, 1 << 40):
            assert 0.0 < uniform(seed, position) < 1.0


def test_values_are_spread_evenly_and_streams_do_not_repeat_each_other() -> None:
    streams = [[uniform(seed, position) for position in range(2000)] for seed in range(20)]
    values = [value for stream in streams for value in stream]
    assert len(set(values)) == len(values)
    buckets = [0] * 100
    for value in values:
        buckets[int(value * 100)] += 1
    expected = len(values) / 100
    chi_square = sum((count - expected) ** 2 / expected for count in buckets)
    assert chi_square < 99 + 5 * math.sqrt(2 * 99)


def test_neighbouring_seeds_and_positions_are_uncorrelated() -> None:
    def correlation(left: list[float], right: list[float]) -> float:
        return sum((a - 0.5) * (b - 0.5) for a, b in zip(left, right, strict=True)) / len(left) * 12

    base = [uniform(7, position) for position in range(5000)]
    limit = 5 / math.sqrt(len(base))
    assert abs(correlation(base, [uniform(8, position) for position in range(5000)])) < limit
    assert abs(correlation(base, [uniform(7, position + 1) for position in range(5000)])) < limit
    assert abs(correlation([uniform(s, 3) for s in range(5000)], [uniform(s + 1, 3) for s in range(5000)])) < limit
