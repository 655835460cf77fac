"""Float32 logits of a GGUF file's weights, from transformers: neither our code nor llama.cpp's."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors.torch import save_file

Floats = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class Reference:
    """The dequantized weights of a GGUF file in float32, eager attention."""

    def __init__(self, model: Path, chunk: int, threads: int) -> None:
        torch.set_num_threads(threads)
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bars show in files, too
            self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                model.parent, gguf_file=model.name, dtype=torch.float32, attn_implementation="eager"
            )
        self._model.eval()
        self._chunk = chunk

    @torch.inference_mode()
    def logits(self, ids: IntArray) -> Iterator[Floats]:
        """``[<= chunk, vocab]`` for all positions of one sequence, in order."""
        base = getattr(self._model, self._model.base_model_prefix)
        hidden = base(torch.from_numpy(ids)[None], use_cache=False).last_hidden_state[0]
        for begin in range(0, len(ids), self._chunk):
            yield self._head(hidden[begin : begin + self._chunk]).numpy()

    def save(self, folder: Path) -> None:
        """Write the float32 weights as a Hugging Face folder."""
        config = self._model.config.to_dict() | {"architectures": [type(self._model).__name__], "dtype": "float32"}
        config.pop("quantization_config", None)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        tensors = {name: value for name, value in self._model.state_dict().items() if name not in self._tied()}
        save_file(tensors, folder / "model.safetensors")

    def _tied(self) -> tuple[str, ...]:
        return ("lm_head.weight",) if self._model.config.tie_word_embeddings else ()

    def _head(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._model.lm_head(hidden)
        cap = getattr(self._model.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap
