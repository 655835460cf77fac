"""Loads the tokenizer of a Hugging Face folder from ``tokenizer.json`` and the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from sglang.formats.errors import FormatError
from sglang.text.tokenizer_settings import ROLES, TokenizerSettings

Json = dict[str, Any]

# These classes apply add_bos_token and add_eos_token of tokenizer_config.json over what tokenizer.json says.
_CLASSES_WITH_FLAGS = ("Llama", "CodeLlama", "Gemma")


def load_folder_tokenizer(path: Path) -> tuple[Tokenizer, TokenizerSettings]:
    """Tokenizer and settings of a folder; :class:`FormatError` names a missing or damaged file."""
    config = _read_json(path / "tokenizer_config.json")
    roles = _roles(config) or _roles(_read_json(path / "special_tokens_map.json"))
    backend = _backend(path)
    _add_missing(backend, config, roles)
    flags = str(config.get("tokenizer_class", "")).startswith(_CLASSES_WITH_FLAGS)
    return backend, TokenizerSettings(
        special_tokens=roles,
        chat_template=_chat_template(path, config),
        add_bos=config.get("add_bos_token") if flags else None,
        add_eos=config.get("add_eos_token") if flags else None,
    )


def _backend(path: Path) -> Tokenizer:
    file = path / "tokenizer.json"
    if not file.is_file():
        return _converted(path)
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise FormatError(f"{file}: can't be read ({error}). Download it again.") from None
    # A prompt is never cut or padded here, whatever the file was last used for.
    backend.no_truncation()
    backend.no_padding()
    return backend


def _converted(path: Path) -> Tokenizer:
    """For folders with other vocabulary files (tokenizer.model, vocab.json): converted by transformers."""
    # Imported here: it takes a second, and hardly any folder needs it.
    from transformers import AutoTokenizer

    try:
        backend = AutoTokenizer.from_pretrained(str(path), use_fast=True).backend_tokenizer
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise FormatError(
            f"{path}: holds no tokenizer.json, and no other tokenizer could be loaded ({reason}). "
            "Add tokenizer.json, or give --tokenizer-path."
        ) from None
    assert isinstance(backend, Tokenizer)
    return backend


def _roles(config: Json) -> dict[str, str]:
    """Special tokens by name, the model's own (``extra_special_tokens``) included."""
    named = {role: config[role] for role in ROLES if config.get(role)}
    extra = config.get("extra_special_tokens")
    if isinstance(extra, dict):
        named |= extra
    return {role: text for role, token in named.items() if (text := _text(token))}


def _text(token: Any) -> str:
    """Tokens stand as text, or as an object with ``content``."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""


def _add_missing(backend: Tokenizer, config: Json, roles: dict[str, str]) -> None:
    """Tokens that only tokenizer_config.json knows, in the order of their ids."""
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    listed = config.get("added_tokens_decoder")
    entries = sorted(listed.items(), key=lambda item: int(item[0])) if isinstance(listed, dict) else []
    for _, entry in entries:
        if isinstance(entry, dict) and _text(entry) and _text(entry) not in known:
            options = {key: bool(entry.get(key, False)) for key in ("single_word", "lstrip", "rstrip", "normalized")}
            backend.add_tokens([AddedToken(_text(entry), special=bool(entry.get("special")), **options)])
    others = config.get("additional_special_tokens") or []
    wanted = [*roles.values(), *(_text(token) for token in others)]
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    missing = [text for text in dict.fromkeys(wanted) if text and text not in special]
    backend.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in missing])


def _chat_template(path: Path, config: Json) -> str | None:
    """``chat_template.jinja``, else the template in chat_template.json or tokenizer_config.json."""
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    template = _read_json(path / "chat_template.json").get("chat_template") or config.get("chat_template")
    if isinstance(template, list):
        named = {item.get("name"): item.get("template") for item in template if isinstance(item, dict)}
        template = named.get("default") or next(iter(named.values()), None)
    return template if isinstance(template, str) else None


def _read_json(file: Path) -> Json:
    """The object in a JSON file; empty where the file is absent."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_bytes())
    except ValueError as error:
        raise FormatError(f"{file}: not valid JSON ({error}). Download it again.") from None
    return value if isinstance(value, dict) else {}
