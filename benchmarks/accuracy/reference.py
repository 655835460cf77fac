"""Float32 logits of a GGUF file's weights, from transformers: neither our code nor llama.cpp's.

What takes long is kept: the dequantized weights as a Hugging Face folder, and the last hidden states of each window
(the head's product, hundreds of times as large, is computed when it is needed).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

from benchmarks.accuracy.store import Store, digest_of_ids

Floats = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

HEADS = ("lm_head.weight", "model.embed_tokens.weight")
"""Where the head's matrix is: the second if it is tied."""


class Reference:
    """The dequantized weights in float32, eager attention; ``chunk`` rows of logits at a time."""

    def __init__(self, model: Path, store: Store, chunk: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.folder = store.folder / "float32"
        """The weights, as ``--quantization`` takes them."""
        self._store = store
        self._chunk = chunk
        if not self.folder.exists():
            _dequantize(model, self.folder)
        self._head, self._cap = _head(self.folder)
        self._loaded: Any = None

    def prepare(self, ids: IntArray) -> bool:
        """Compute and keep the hidden states of one window; False if they were there."""
        if self._store.get("hidden", digest_of_ids(ids)) is not None:
            return False
        with torch.inference_mode():
            model = self._model()
            base = getattr(model, model.base_model_prefix)
            hidden = base(torch.from_numpy(ids)[None], use_cache=False).last_hidden_state[0]
        self._store.put({"hidden": hidden.numpy()}, "hidden", digest_of_ids(ids))
        return True

    def release(self) -> None:
        """Free the layers; logits of prepared windows need the head alone."""
        self._loaded = None

    def logits(self, ids: IntArray) -> Iterator[Floats]:
        """``[<= chunk, vocab]`` for all positions of a prepared window, in order."""
        kept = self._store.get("hidden", digest_of_ids(ids))
        if kept is None:
            raise LookupError("prepare this window first")
        hidden = torch.from_numpy(kept["hidden"])
        for begin in range(0, len(ids), self._chunk):
            logits = torch.nn.functional.linear(hidden[begin : begin + self._chunk], self._head)
            yield (logits if self._cap is None else torch.tanh(logits / self._cap) * self._cap).numpy()

    def _model(self) -> Any:
        if self._loaded is None:
            with contextlib.redirect_stderr(io.StringIO()):  # its progress bars show in files, too
                self._loaded = transformers.AutoModelForCausalLM.from_pretrained(
                    self.folder, dtype=torch.float32, attn_implementation="eager"
                )
            self._loaded.eval()
        return self._loaded


def _dequantize(file: Path, folder: Path) -> None:
    """Write the float32 weights as a Hugging Face folder; it appears when it is whole."""
    with contextlib.redirect_stderr(io.StringIO()):
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32
        )
    config = model.config.to_dict() | {"architectures": [type(model).__name__], "dtype": "float32"}
    config.pop("quantization_config", None)
    tied = HEADS[:1] if model.config.tie_word_embeddings else ()
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    fresh.mkdir(parents=True)
    (fresh / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name not in tied}
    save_file(weights, fresh / "model.safetensors", metadata={"format": "pt"})
    fresh.rename(folder)


def _head(folder: Path) -> tuple[torch.Tensor, float | None]:
    """The matrix ``[vocab, hidden]`` and the soft cap of the logits."""
    cap = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("final_logit_softcapping")
    with safe_open(folder / "model.safetensors", "pt") as file:
        names = set(file.keys())
        weight = file.get_tensor(next(name for name in HEADS if name in names))
    return weight, cap
