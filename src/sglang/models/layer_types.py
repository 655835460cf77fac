"""Which layers slide: the config's own list, or a family's rule where the list is missing."""

from __future__ import annotations

from collections.abc import Callable

from sglang.config.model_config import ModelConfig

SLIDING = "sliding_attention"
FULL = "full_attention"


def layer_types(config: ModelConfig, slides: Callable[[int], bool]) -> list[str]:
    """SLIDING or FULL per layer; ``slides(index)`` decides when the config has no ``layer_types``."""
    given = config.hf.get("layer_types")
    if given is None:
        return [SLIDING if slides(index) else FULL for index in range(config.num_layers)]
    unknown = set(given) - {SLIDING, FULL}
    if unknown or len(given) < config.num_layers:
        raise ValueError(
            f"layer_types lists {len(given)} layers of kinds {sorted(set(given))}; "
            f"{config.num_layers} layers of {SLIDING!r} or {FULL!r} are needed"
        )
    return list(given[: config.num_layers])


def sliding_window(config: ModelConfig, layer_type: str) -> int | None:
    """The window of a layer of this type."""
    window = config.hf.get("sliding_window")
    return int(window) if layer_type == SLIDING and window else None
