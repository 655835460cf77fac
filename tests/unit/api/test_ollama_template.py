"""Prompt templates that a request of /api/generate may bring."""

from __future__ import annotations

import pytest

from sglang.api.ollama.template import MAX_CHARS, MAX_DEPTH, fill, names
from sglang.ipc.errors import InvalidRequest

VALUES = {"System": "S", "Prompt": "P", "Suffix": ""}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .Prompt }}", "P"),
        ("a{{.System}}b{{ .Prompt }}c", "aSbPc"),
        ("{{ if .System }}<s>{{ .System }}</s>{{ end }}{{ .Prompt }}", "<s>S</s>P"),
        ("{{ if .Suffix }}x{{ else }}y{{ end }}", "y"),
        ("{{ if .Suffix }}x{{ else if .System }}y{{ else }}z{{ end }}", "y"),
        ("{{ if .System }}x{{ else if .System }}y{{ else }}z{{ end }}", "x"),
        ("{{ if not .Suffix }}x{{ end }}", "x"),
        ("{{ if .Suffix }}{{ if .System }}x{{ else }}y{{ end }}{{ else }}z{{ end }}", "z"),
        ("a  {{- .Prompt -}}  b", "aPb"),
        ("a {{/* words */}}b", "a b"),
        ("{{ .Prompt }}[{{ .Response }}]{{ if", "P["),
        ("{{ if .Suffix }}{{ .Response }}{{ end }}x", "x"),
        ("", ""),
        ("{ {} }", "{ {} }"),
    ],
)
def test_filled(template: str, text: str) -> None:
    assert fill(template, VALUES) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ .Messages }}", "{{ range .Messages }}x{{ end }}", "{{ .Prompt", "{{ if .System }}", "{{ end }}",
        "{{ else }}", "{{ if .System }}{{ else }}{{ else }}{{ end }}", "{{ if and .System .Prompt }}x{{ end }}",
        "{{ printf .Prompt }}", "{{ else of }}", "{{ if .Nothing }}{{ end }}", "{{ .Prompt | html }}",
        "{{ if .Suffix }}{{ .Messages }}{{ end }}", "x" * (MAX_CHARS + 1), "{{ if .System }}" * (MAX_DEPTH + 1),
    ],
)  # fmt: skip
def test_refused(template: str) -> None:
    with pytest.raises(InvalidRequest, match=r"template: .*accepted"):
        fill(template, VALUES)


def test_many_tags_take_linear_time() -> None:
    assert fill("{{ .Prompt }}" * 7000, VALUES) == "P" * 7000


def test_names() -> None:
    assert names("{{ if .Suffix }}x{{ end }}", "Suffix")
    assert not names(".Suffix {{ .Prompt }}", "Suffix")
