"""Chat templates: what they render, what they are given, and what they can't do."""

from __future__ import annotations

import copy
import resource
from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

import sglang
from sglang.ipc.errors import InvalidRequest
from sglang.text.chat_template import ChatTemplate, TemplateError, load_chat_template
from sglang.text.tokenizer import load_tokenizer

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
TOOLS = [
    {"type": "function", "function": {"name": "größe", "parameters": {"type": "object", "properties": {"a<b": {}}}}}
]

LLAMA3_LIKE = """{{- bos_token }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if loop.first and message['role'] == 'system' %}
        {%- set ns = namespace(seen=true) %}
        {{- message['content'] | trim }}
        {%- continue %}
    {%- endif %}
    {{- '<|h|>' + message['role'] + '<|/h|>\\n\\n' ~ message['content'][:40] ~ loop.revindex }}
    {%- if not loop.last and message['role'] in ['user', 'tool'] %}{{- "|" * 2 }}{%- endif %}
    {%- if message.tool_calls is defined %}
        {%- generation %}{{- message.tool_calls[0].function.arguments | tojson }}{%- endgeneration %}
    {%- endif %}
{%- endfor %}
{%- macro turn(role) %}<|h|>{{ role }}{% endmacro %}
{%- if add_generation_prompt %}{{ turn('assistant') }}{% endif %}
{{- messages | map(attribute='role') | join(',') }}
{{- "%s-%d" % ("x", 3) }}{{ "{}".format(1) }}{{ 'a b'.split() | length }}
{{- messages | selectattr('role', 'equalto', 'user') | list | length }}{{ 'x' | indent(2, true) }}
{{- flag | default('none') }}
"""

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Wie groß? 漢字 <&>"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "größe", "arguments": {"x": "é"}}}]},
    {"role": "tool", "content": "3"},
    {"role": "user", "content": "and now " * 20},
]


def by_transformers(source: str, messages: list[dict], **variables: Any) -> str:
    rendered, _ = render_jinja_template(conversations=[messages], chat_template=source, **variables)
    return rendered[0]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("tools", [None, TOOLS])
def test_renders_as_transformers_does(prompt: bool, tools: list | None) -> None:
    template = ChatTemplate(LLAMA3_LIKE, {"bos_token": "<s>"})
    expected = by_transformers(LLAMA3_LIKE, CONVERSATION, tools=tools, add_generation_prompt=prompt, bos_token="<s>")
    assert template.render(CONVERSATION, add_generation_prompt=prompt, tools=tools) == expected
    assert "größe" in expected or tools is None
    assert template.render(CONVERSATION, flag="on").endswith("on")


@pytest.mark.parametrize("model", ["smollm2_gguf", "qwen25_gguf"])
def test_templates_of_real_models(model: str, request: pytest.FixtureRequest) -> None:
    tokenizer = load_tokenizer(request.getfixturevalue(model))
    template = load_chat_template(None, tokenizer)
    assert template is not None and template.content_format == "string"
    for messages in (QUESTION, CONVERSATION):
        for tools in (None, TOOLS):
            normal = template.normalize_messages(messages)
            expected = by_transformers(template.source, normal, tools=tools, add_generation_prompt=True)
            assert template.render(normal, tools=tools) == expected


def test_content_parts_give_the_tokens_of_the_plain_text(smollm2_gguf: Path) -> None:
    tokenizer = load_tokenizer(smollm2_gguf)
    template = load_chat_template(None, tokenizer)
    assert template is not None
    parts = [{"type": "text", "text": "What is the capital"}, {"type": "text", "text": "of France?"}]
    plain, joined = (
        template.render(template.normalize_messages([{"role": "user", "content": content}]))
        for content in ("What is the capital of France?", parts)
    )
    assert joined == plain
    ids = tokenizer.encode(joined, add_special_tokens=False)
    assert len(ids) == 37
    assert ids[:4] == [1, 9690, 198, 2683]


STRING = "{% for m in messages %}{{ m['role'] ~ ': ' ~ m['content'] }}\n{% endfor %}"
PARTS = "{% for m in messages %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}{% endfor %}"
BOTH = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for c in m.content | selectattr('type', 'equalto', 'text') %}{{ c.text }}{% endfor %}{% endif %}{% endfor %}"
)
RENAMED = "{% for m in messages %}{% set body = m.content %}{% for c in body %}{{ c.text }}{% endfor %}{% endfor %}"
SPLIT = "{% for m in messages %}{% for line in m.content.split('\n') %}{{ line }}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "wants"),
    [(STRING, "string"), (SPLIT, "string"), (PARTS, "openai"), (BOTH, "openai"), (RENAMED, "openai")],
)
def test_every_template_gets_the_content_it_wants(source: str, wants: str) -> None:
    template = ChatTemplate(source, {})
    assert template.content_format == wants
    for content in (
        "a b",
        [{"type": "text", "text": "a b"}],
        [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}],
    ):
        text = template.render(template.normalize_messages([{"role": "user", "content": content}]))
        assert "a" in text and "b" in text and "type" not in text and "[" not in text


def test_messages_are_normalised_on_copies() -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": '{"x": [1]}'}}
    broken = {"id": "2", "function": {"name": "f", "arguments": "no json"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call, broken]},
        {"role": "tool", "tool_call_id": "1"},
        {"role": "user", "content": ["a", {"type": "text", "text": "b"}]},
    ]
    before = copy.deepcopy(messages)
    normal = ChatTemplate("{{ messages[0].tool_calls[0].function.arguments | tojson }}", {}).normalize_messages(
        messages
    )
    assert messages == before
    assert [message["content"] for message in normal] == ["", "", "a b"]
    assert [c["function"]["arguments"] for c in normal[0]["tool_calls"]] == [{"x": [1]}, "no json"]


def test_templates_that_write_arguments_as_text_keep_text() -> None:
    source = "{% for c in messages[0].tool_calls %}{{ '>' + c.function.arguments }}{% endfor %}"
    template = ChatTemplate(source, {})
    calls = [{"function": {"name": "f", "arguments": value}} for value in ('{"x":1}', {"y": "é"})]
    normal = template.normalize_messages([{"role": "assistant", "tool_calls": calls}])
    assert template.render(normal) == '>{"x":1}>{"y": "é"}'


def test_parts_that_are_no_text_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="image_url"):
        ChatTemplate(STRING, {}).normalize_messages([{"role": "user", "content": [{"type": "image_url"}]}])


def test_a_refusal_keeps_the_words_of_the_template() -> None:
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}ok"
    template = ChatTemplate(source, {})
    with pytest.raises(TemplateError, match="System role not supported") as caught:
        template.render([{"role": "system", "content": "x"}])
    assert isinstance(caught.value, InvalidRequest) and caught.value.field == "messages"
    assert template.render(QUESTION) == "ok"


@pytest.mark.parametrize(
    "source", ["{% for x in %}", "{{ 1 +", "{% unknown %}", "{{ x | no_such_filter }}", "{{" + "(" * 5000]
)
def test_a_broken_template_is_named_when_it_is_loaded(source: str) -> None:
    with pytest.raises(TemplateError, match="can't be compiled"):
        ChatTemplate(source, {})


DOUBLING = "{{% set n = namespace(x={start}) %}}{{% for i in range(60) %}}{step}{{% endfor %}}{end}"


def doubling(step: str, end: str = "", start: str = "'aaaaaaaa'") -> str:
    return DOUBLING.format(start=start, step=step, end=end)


NESTED = "{% set n.x = [n.x, n.x] %}"
HOSTILE = {
    "repeat": "{{ 'a' * 10**9 }}",
    "repeat-constant": "{{ 'a' * 1000000000 }}",
    "repeat-list": "{{ [1] * 1000000000 }}",
    "power": "{{ 10 ** 100000000 }}",
    "loops": "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
    "range": "{% for i in range(10**9) %}{% endfor %}",
    "double-add": doubling("{% set n.x = n.x + n.x %}"),
    "double-concat": doubling("{% set n.x = n.x ~ n.x %}"),
    "double-block": doubling("{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}"),
    "double-list": doubling("{% set n.x = n.x + n.x %}", start="[1]"),
    "double-join": doubling("{% set n.x = [n.x, n.x] | join %}"),
    "double-replace": doubling("{% set n.x = n.x | replace('a', 'aa') %}"),
    "center": "{{ 'a' | center(1000000000) }}",
    "ljust": "{{ 'a'.ljust(1000000000) }}",
    "indent": "{{ 'a' | indent(1000000000, true) }}",
    "tojson": "{{ [1] | tojson(indent=1000000000) }}",
    "batch": "{{ 'a' | list | batch(1000000000, 'x') | list }}",
    "replace": "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
    "join": "{{ ('b' * 100000).join('a' * 100000) }}",
    "percent": "{{ '%1000000000d' % 1 }}",
    "percent-star": "{{ '%*d' % (1000000000, 1) }}",
    "format": "{{ '{:1000000000}'.format(1) }}",
    "format-nested": "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "format-filter": "{{ '%1000000000d' | format(1) }}",
    "macro": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "recursive-loop": "{% for x in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "tree": doubling(NESTED, "{{ n.x }}"),
    "tree-json": doubling(NESTED, "{{ n.x | tojson }}"),
    "tree-concat": doubling(NESTED, "{{ n.x ~ '' }}"),
    "tree-percent": doubling(NESTED, "{{ '%s' % n.x }}"),
    "tree-map": doubling(NESTED, "{{ [n.x] | map('string') | list }}"),
    "tree-compare": doubling(NESTED, "{{ n.x == n.x[:] }}"),
    "slices": (
        "{% set n = namespace(l=[]) %}{% for i in range(9000) %}"
        "{% set n.l = n.l + [messages[0].content[1:]] %}{% endfor %}"
    ),
    "globals": "{{ cycler.__init__.__globals__ }}",
    "class": "{{ ''.__class__.__mro__ }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_end_in_an_error_with_memory_flat(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TemplateError):
        ChatTemplate(HOSTILE[name], {}).render([{"role": "user", "content": "x" * 50_000}])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


def test_long_honest_conversations_stay_within_the_limits() -> None:
    template = ChatTemplate(LLAMA3_LIKE, {"bos_token": "<s>"})
    messages = [{"role": "user", "content": "word " * 200} for _ in range(2500)]
    assert template.render(messages).count("<|h|>user") == 2500


def test_one_module_constructs_the_jinja_environment() -> None:
    sources = Path(sglang.__file__).parent.rglob("*.py")
    users = {path.name for path in sources if "jinja2" in path.read_text()}
    assert users <= {"template_sandbox.py", "chat_template.py"}
    assert "Environment(" not in Path(sglang.__file__).parent.joinpath("text/chat_template.py").read_text()


def test_the_template_of_the_command_line(tmp_path: Path, smollm2_gguf: Path) -> None:
    tokenizer = load_tokenizer(smollm2_gguf, decode_only=True)
    file = tmp_path / "t.jinja"
    file.write_text("{{ eos_token }}{{ messages[0].content }}")
    template = load_chat_template(str(file), tokenizer)
    assert template is not None and template.render(QUESTION).startswith("<|im_end|>What")
    with pytest.raises(ValueError, match=r"--chat-template 'chatml' is not an existing file.*\.jinja"):
        load_chat_template("chatml", tokenizer)
    tokenizer.chat_template = None
    assert load_chat_template(None, tokenizer) is None
