"""Build a model from the files that its config points at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from tqdm import tqdm

from sglang.config.model_config import DTYPES, ModelConfig
from sglang.formats.raw import RawTensor
from sglang.layers.weight_source import CheckpointRules, WeightSource
from sglang.loader.checkpoint import Checkpoint
from sglang.loader.errors import LoadError
from sglang.loader.gguf_tensors import open_gguf
from sglang.loader.safetensors_tensors import open_safetensors
from sglang.ops.interface import Ops

ModelT = TypeVar("ModelT")
ModelT_co = TypeVar("ModelT_co", covariant=True)

OPENERS: Mapping[str, Callable[[ModelConfig], Mapping[str, RawTensor]]] = {
    "hf": open_safetensors,
    "gguf": open_gguf,
}


class ModelClass(Protocol[ModelT_co]):
    """What ``models.registry.model_class`` returns, as far as loading is concerned."""

    @property
    def rules(self) -> CheckpointRules: ...

    def __call__(self, config: ModelConfig, weights: WeightSource) -> ModelT_co: ...


def load_model(
    config: ModelConfig,
    model_class: ModelClass[ModelT],
    ops: Ops,
    *,
    show_progress: bool = True,
) -> ModelT:
    """The model of ``config`` with its weights as ``ops`` keeps them, e.g.

        model = load_model(config, model_class(config.architecture), select("cpu"))

    The progress bar goes to stderr and shows on terminals only. Raises :class:`LoadError` naming all tensors that are
    missing, left over or of the wrong shape.
    """
    if config.dtype not in DTYPES:
        raise LoadError(f"dtype {config.dtype!r} is not supported; supported: {', '.join(DTYPES)}")
    tensors = OPENERS[config.format](config)
    hide = not (show_progress and sys.stderr.isatty())
    tqdm.set_lock(threading.RLock())  # its default is a named semaphore that outlives a killed process
    with tqdm(total=len(tensors), desc="Loading weights", unit="tensor", disable=hide, leave=False) as bar:
        weights = Checkpoint(tensors, model_class.rules, ops, config.dtype, on_read=bar.update)
        model = model_class(config, weights)
    weights.finish(config.path)
    return model
