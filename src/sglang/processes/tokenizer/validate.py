"""What a request asks for, checked field by field before any work starts. Every refusal names the field."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sglang.grammar.check import check_grammar
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.sampling_params import SamplingParams, parse_sampling_params
from sglang.processes.tokenizer import features

T = TypeVar("T")

MAX_SEQUENCES = 16_384
"""Prompts × n of one request."""
MAX_REQUEST_TOKENS = 8_000_000
"""Prompt tokens of one request, each prompt counted n times: this many travel to the scheduler."""
MAX_CHARS_PER_TOKEN = 128
"""Longer texts can't fit whatever the tokenizer does (its longest tokens are runs of blanks), so we don't try."""
MAX_TOP_LOGPROBS = 1_024
MAX_LOGPROB_IDS = 4_096
MAX_NAME_CHARS = 1_024
"""Length of rids, cache keys and the like."""
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """What this server can do; the slice of the configuration that request checks may read."""

    vocab_size: int
    context_length: int
    has_tokenizer: bool = True
    allow_auto_truncate: bool = False
    dp_size: int = 1
    enable_custom_logit_processor: bool = False
    preferred_sampling_params: dict[str, Any] = field(default_factory=dict)
    """Defaults merged under each request's own ``sampling_params``."""
    max_new_tokens_limit: int | None = None
    grammar_backend: str = "xgrammar"
    think_end_ids: tuple[int, ...] = ()
    """Tokens that end the thinking part of a model that has one."""


@dataclass(slots=True)
class PromptSpec:
    """One prompt of a request with everything that belongs to it."""

    rid: str
    text: str | None
    input_ids: list[int] | None
    params: SamplingParams
    max_new_tokens_given: bool
    return_logprob: bool
    logprob_start_len: int
    top_logprobs_num: int
    token_ids_logprob: list[int] | None
    extra_key: str | None
    cache_salt: str | None


@dataclass(slots=True)
class Plan:
    prompts: list[PromptSpec]
    n: int
    """Samples a prompt; the same for all."""
    is_batch: bool
    """Whether the caller passed a list of prompts."""
    parent_rid: str | None
    """A caller's rid that stands for the whole batch."""
    priority: int | None


def plan_request(obj: GenerateReqInput, rules: Rules) -> Plan:
    """Check and unfold a request. Raises :class:`InvalidRequest` (or a subclass) for anything that can't be served."""
    features.refuse_unsupported(obj, rules.enable_custom_logit_processor)
    _check_flags(obj, rules)
    texts, ids, is_batch = _prompts(obj, rules)
    items = _Items(len(texts), is_batch)
    params, given = _sampling_params(obj.sampling_params, items, rules)
    n = params[0].n
    if n * items.count > MAX_SEQUENCES:
        text = f"n: {items.count} prompts x n={n} make {n * items.count} sequences; at most {MAX_SEQUENCES} are allowed"
        raise InvalidRequest(text, "n")
    if n > 1:
        _refuse_logprob_lists(obj)
    rids, parent = _rids(obj.rid, items)
    return_logprob = items.spread("return_logprob", obj.return_logprob, _bool, False)
    start = items.spread("logprob_start_len", obj.logprob_start_len, _int_between(-1, INT64_MAX), -1)
    top = items.spread("top_logprobs_num", obj.top_logprobs_num, _top_bound(rules.vocab_size), 0)
    wanted_ids = _token_ids_logprob(obj.token_ids_logprob, items, rules.vocab_size)
    extra_key = items.spread("extra_key", obj.extra_key, check_name, "")
    cache_salt = items.spread("cache_salt", obj.cache_salt, check_name, "")
    prompts = [
        PromptSpec(
            rid=rids[i],
            text=texts[i],
            input_ids=ids[i],
            params=params[i],
            max_new_tokens_given=given[i],
            return_logprob=return_logprob[i],
            logprob_start_len=start[i],
            top_logprobs_num=top[i],
            token_ids_logprob=wanted_ids[i],
            extra_key=extra_key[i] or None,
            cache_salt=cache_salt[i] or None,
        )
        for i in range(items.count)
    ]
    return Plan(prompts, n, is_batch, parent, obj.priority)


# ------------------------------------------------------------------ single values


def check_name(field_name: str, value: object) -> str:
    """A short string that can travel: rids, cache keys."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{field_name}: expected a string, got {_kind(value)}", field_name)
    if len(value) > MAX_NAME_CHARS:
        text = f"{field_name}: {len(value)} characters are too many; at most {MAX_NAME_CHARS} are allowed"
        raise InvalidRequest(text, field_name)
    return _encodable(field_name, value)


def _encodable(field_name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        text = f"{field_name}: holds half a surrogate pair at character {error.start}, which is no valid text"
        raise InvalidRequest(text, field_name) from error
    return value


def _bool(field_name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{field_name}: expected true or false, got {_kind(value)}", field_name)
    return value


def _int_between(low: int, high: int) -> Callable[[str, object], int]:
    def check(field_name: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidRequest(f"{field_name}: expected an integer, got {_kind(value)}", field_name)
        if not low <= value <= high:
            raise InvalidRequest(f"{field_name}: must be in [{low}, {high}], got {value}", field_name)
        return value

    return check


def _top_bound(vocab_size: int) -> Callable[[str, object], int]:
    return _int_between(0, min(vocab_size, MAX_TOP_LOGPROBS))


def _kind(value: object) -> str:
    """How an error message shows a value of the wrong type: short, whatever its size."""
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    if isinstance(value, bool | int | float):
        return f"{names.get(type(value), 'the number')} {str(value)[:32]}"
    return names.get(type(value), f"a {type(value).__name__}")


def check_token_ids(field_name: str, value: object, vocab_size: int) -> list[int]:
    if not isinstance(value, list):
        raise InvalidRequest(f"{field_name}: expected a list of token ids, got {_kind(value)}", field_name)
    for token in value:
        if type(token) is not int:
            raise InvalidRequest(f"{field_name}: token ids are integers, got {_kind(token)}", field_name)
    if value and (min(value) < 0 or max(value) >= vocab_size):
        wrong = next(token for token in value if not 0 <= token < vocab_size)
        text = f"{field_name}: token id {wrong} is outside the vocabulary; valid ids are [0, {vocab_size})"
        raise InvalidRequest(text, field_name)
    return value


# ------------------------------------------------------------------ batches


@dataclass(frozen=True, slots=True)
class _Items:
    """The shape of a request: how many prompts, and whether they came as a list."""

    count: int
    is_batch: bool

    def spread(self, name: str, value: object, check: Callable[[str, object], T], default: T) -> list[T]:
        """One checked value a prompt, from a shared value or a list of them; null means ``default``."""
        if isinstance(value, list):
            self.check_length(name, value)
            return [default if item is None else check(f"{name}[{i}]", item) for i, item in enumerate(value)]
        return [default if value is None else check(name, value)] * self.count

    def check_length(self, name: str, value: list[Any]) -> None:
        if not self.is_batch:
            raise InvalidRequest(f"{name}: a list needs a list of prompts, but there is a single prompt", name)
        if len(value) != self.count:
            raise InvalidRequest(f"{name}: {len(value)} values for {self.count} prompts; the numbers must match", name)


def _check_flags(obj: GenerateReqInput, rules: Rules) -> None:
    for name in ("stream", "return_text_in_logprobs", "return_prompt_token_ids", "background"):
        value = getattr(obj, name)
        if value is not None:
            _bool(name, value)
    if obj.priority is not None:
        _int_between(-(2**63), INT64_MAX)("priority", obj.priority)
    for name in ("routed_dp_rank", "data_parallel_rank"):
        value = getattr(obj, name)
        if value is not None:
            _int_between(0, rules.dp_size - 1)(name, value)


def _prompts(obj: GenerateReqInput, rules: Rules) -> tuple[list[str | None], list[list[int] | None], bool]:
    """Texts and ids (parallel, one of the two set; ids win where both are given) and whether it is a batch."""
    if obj.input_ids is None and obj.text is None:
        raise InvalidRequest("one of text, input_ids or input_embeds must be given", "text")
    texts: list[str | None] | None = None
    ids: list[list[int] | None] | None = None
    is_batch = isinstance(obj.text if obj.text is not None else obj.input_ids, list)
    if obj.text is not None:
        texts = _texts(obj.text, rules)
    if obj.input_ids is not None:
        nested, ids = _id_lists(obj.input_ids, rules.vocab_size)
        if texts is None:
            return [None] * len(ids), ids, nested
        if nested != is_batch or len(texts) != len(ids):
            text = "text and input_ids: both are given but not for the same number of prompts; give one of them"
            raise InvalidRequest(text, "input_ids")
        return [None] * len(ids), ids, nested
    assert texts is not None
    return texts, [None] * len(texts), is_batch


def _texts(value: object, rules: Rules) -> list[str | None]:
    if not rules.has_tokenizer:
        text = "text: the server runs with --skip-tokenizer-init and takes only token ids; use input_ids"
        raise InvalidRequest(text, "text")
    items = value if isinstance(value, list) else [value]
    if not items:
        raise InvalidRequest("text: the list of prompts is empty", "text")
    if len(items) > MAX_SEQUENCES:
        raise InvalidRequest(f"text: {len(items)} prompts; at most {MAX_SEQUENCES} are allowed", "text")
    limit = rules.context_length * MAX_CHARS_PER_TOKEN
    for i, item in enumerate(items):
        name = f"text[{i}]" if isinstance(value, list) else "text"
        if not isinstance(item, str):
            raise InvalidRequest(f"{name}: expected a string, got {_kind(item)}", "text")
        if len(item) > limit:
            text = f"{name}: {len(item)} characters can't fit the context length of {rules.context_length} tokens"
            raise InvalidRequest(f"{text}; at most {limit} characters are read", "text")
        _encodable(name, item)
    return list(items)


def _id_lists(value: object, vocab_size: int) -> tuple[bool, list[list[int] | None]]:
    name = "input_ids"
    if not isinstance(value, list):
        raise InvalidRequest(f"{name}: expected a list of token ids or a list of such lists, got {_kind(value)}", name)
    if not value:
        raise InvalidRequest(f"{name}: is empty; a prompt needs at least one token", name)
    if not isinstance(value[0], list):
        return False, [check_token_ids(name, value, vocab_size)]
    if len(value) > MAX_SEQUENCES:
        raise InvalidRequest(f"{name}: {len(value)} prompts; at most {MAX_SEQUENCES} are allowed", name)
    checked: list[list[int] | None] = []
    for i, item in enumerate(value):
        ids = check_token_ids(f"{name}[{i}]", item, vocab_size)
        if not ids:
            raise InvalidRequest(f"{name}[{i}]: is empty; a prompt needs at least one token", name)
        checked.append(ids)
    return True, checked


def _sampling_params(value: object, items: _Items, rules: Rules) -> tuple[list[SamplingParams], list[bool]]:
    """Checked parameters a prompt, and whether the request itself set ``max_new_tokens``."""
    if not isinstance(value, list):
        params = _one_sampling_params("sampling_params", value, rules)
        return [params[0]] * items.count, [params[1]] * items.count
    items.check_length("sampling_params", value)
    parsed = [_one_sampling_params(f"sampling_params[{i}]", item, rules) for i, item in enumerate(value)]
    samples = {params.n for params, _ in parsed}
    if len(samples) > 1:
        raise InvalidRequest(f"sampling_params: n must be the same for all prompts, got {sorted(samples)}", "n")
    return [params for params, _ in parsed], [given for _, given in parsed]


def _one_sampling_params(name: str, value: object, rules: Rules) -> tuple[SamplingParams, bool]:
    if value is not None and not isinstance(value, dict):
        raise InvalidRequest(f"{name}: expected an object, got {_kind(value)}", "sampling_params")
    params = parse_sampling_params(value, vocab_size=rules.vocab_size, defaults=rules.preferred_sampling_params or None)
    for text in (*params.stop, *params.stop_regex):
        _encodable(f"{name}.stop", text)
    features.check_stop_regexes(params.stop_regex)
    if not rules.has_tokenizer:
        _refuse_text_stops(params)
    check_grammar(params, rules.grammar_backend, rules.has_tokenizer)
    limit = rules.max_new_tokens_limit
    if limit is not None and (params.max_new_tokens is None or params.max_new_tokens > limit):
        params.max_new_tokens = limit
        params.min_new_tokens = min(params.min_new_tokens, limit)
    return params, value is not None and value.get("max_new_tokens") is not None


def _refuse_text_stops(params: SamplingParams) -> None:
    for name, is_set in (
        ("stop", bool(params.stop)),
        ("stop_regex", bool(params.stop_regex)),
        ("min_new_tokens", params.min_new_tokens > 0),
    ):
        if is_set:
            raise InvalidRequest(f"{name}: needs the tokenizer, but the server runs with --skip-tokenizer-init", name)


def _refuse_logprob_lists(obj: GenerateReqInput) -> None:
    for name in ("return_logprob", "logprob_start_len", "top_logprobs_num"):
        if isinstance(getattr(obj, name), list):
            raise InvalidRequest(f"{name}: a list can't be combined with n > 1; give one value for all", name)
    nested = obj.token_ids_logprob
    if isinstance(nested, list) and nested and isinstance(nested[0], list):
        raise InvalidRequest("token_ids_logprob: a list of lists can't be combined with n > 1", "token_ids_logprob")


def _token_ids_logprob(value: object, items: _Items, vocab_size: int) -> list[list[int] | None]:
    name = "token_ids_logprob"

    def check(field_name: str, ids: object) -> list[int] | None:
        checked = check_token_ids(field_name, ids, vocab_size)
        if len(checked) > MAX_LOGPROB_IDS:
            text = f"{field_name}: {len(checked)} ids are too many; at most {MAX_LOGPROB_IDS} are allowed"
            raise InvalidRequest(text, name)
        return checked or None

    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        return items.spread(name, value, check, None)
    return [None if value is None else check(name, value)] * items.count


def _rids(value: object, items: _Items) -> tuple[list[str], str | None]:
    """One rid a prompt, and the caller's rid that stands for a whole batch."""
    if isinstance(value, list):
        items.check_length("rid", value)
        rids = [check_name(f"rid[{i}]", item) or _new_rid() for i, item in enumerate(value)]
        repeated = sorted({rid for rid in rids if rids.count(rid) > 1}) if len(set(rids)) < len(rids) else []
        if repeated:
            raise InvalidRequest(f"rid: request ids must differ, {repeated[:8]} came more than once", "rid")
        return rids, None
    rid = "" if value is None else check_name("rid", value)
    if not items.is_batch:
        return [rid or _new_rid()], None
    if not rid:
        return [_new_rid() for _ in range(items.count)], None
    return [f"{rid}_{i}" for i in range(items.count)], rid


def _new_rid() -> str:
    return uuid.uuid4().hex
