"""Random numbers as a pure function of (seed, position): no state, so a request can be replayed, moved or retracted.

Counter-based generation after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with the
SplitMix64 finaliser of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
"""

from __future__ import annotations

MASK = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
SEED_SALT = 0xD1B54A32D192ED03


def mix64(value: int) -> int:
    """SplitMix64's finaliser: a bijection of 64-bit integers in which every input bit reaches every output bit."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def random_bits(seed: int, position: int) -> int:
    """64 random bits. The seed is hashed first: streams of neighbouring seeds must not overlap when shifted."""
    stream = mix64((seed ^ SEED_SALT) & MASK)
    return mix64((stream + (position + 1) * GOLDEN_GAMMA) & MASK)


def uniform(seed: int, position: int) -> float:
    """A number in the open interval (0, 1): the middle of one of 2^52 equal parts, so that all of them are exact."""
    return ((random_bits(seed, position) >> 12) + 0.5) * 2.0**-52
