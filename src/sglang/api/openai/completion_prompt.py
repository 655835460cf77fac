"""The prompt of a completion: text or token ids, one or many, around a gap where a suffix is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang.api.openai.completion_template import CompletionTemplate
from sglang.api.openai.protocol.completion import CompletionRequest
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.text.tokenizer import Tokenizer


def set_prompt(
    obj: GenerateReqInput, body: CompletionRequest, template: CompletionTemplate | None, tokenizer: Tokenizer | None
) -> None:
    """Give ``obj`` its prompts. Without a template the suffix has no effect: the model would not know what it is."""
    if not body.prompt:
        raise InvalidRequest("prompt: must not be empty", "prompt")
    prompt: Any = body.prompt
    if template is not None and body.suffix is not None:
        if tokenizer is None:
            raise InvalidRequest("suffix: this server runs without a tokenizer (--skip-tokenizer-init)", "suffix")
        gap = _Gap(template, body.suffix, tokenizer)
        prompt = gap.fill(prompt) if is_single(prompt) else [gap.fill(item) for item in prompt]
    first = prompt if isinstance(prompt, str) else prompt[0]
    if isinstance(first, str):
        obj.text = prompt
    else:
        obj.input_ids = prompt


class _Gap:
    def __init__(self, template: CompletionTemplate, suffix: str, tokenizer: Tokenizer) -> None:
        self._template = template
        self._suffix = suffix
        self._tokenizer = tokenizer
        self._around: tuple[list[int], list[int]] | None = None

    def fill(self, prompt: str | list[int]) -> str | list[int]:
        if not prompt:
            raise InvalidRequest("prompt: must not be empty", "prompt")
        if isinstance(prompt, str):
            return self._template.fill(prompt, self._suffix)
        if self._around is None:
            encode = self._tokenizer.encode
            rest = self._template.between + self._suffix + self._template.after
            self._around = encode(self._template.before), encode(rest, add_special_tokens=False)
        before, after = self._around
        return [*before, *prompt, *after]


def is_single(prompt: str | list[str] | list[int] | list[list[int]]) -> bool:
    return isinstance(prompt, str) or isinstance(prompt[0], int)


def echoes(tm: TokenizerManager, body: CompletionRequest) -> list[str]:
    """What ``echo`` puts before the answer to each prompt: the prompt as the caller sent it."""
    prompt: Any = [body.prompt] if is_single(body.prompt) else body.prompt
    if tm.tokenizer is None:
        raise InvalidRequest("echo: this server runs without a tokenizer; use /generate", "echo")
    decode = tm.tokenizer.decode
    return [item if isinstance(item, str) else decode(item, skip_special_tokens=True) for item in prompt]
