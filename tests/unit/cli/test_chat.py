"""``sglang chat`` and ``sglang generate`` with scripted sources."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sglang.cli import sources
from sglang.cli.chat import Chat
from sglang.cli.sources import EngineSource, ServerSource, SourceError


class Scripted:
    """Answers with given pieces; an exception among them is raised."""

    def __init__(self, *pieces: str | BaseException) -> None:
        self.pieces = pieces
        self.seen: list[list[dict[str, str]]] = []
        self.closed = 0

    def stream(self, messages: list[dict[str, str]], params: dict[str, Any]) -> Iterator[str]:
        self.seen.append([dict(message) for message in messages])
        try:
            for piece in self.pieces:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.closed += 1


def talk(source: Any, lines: str, monkeypatch: pytest.MonkeyPatch, system: str | None = None) -> tuple[Chat, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    out = io.StringIO()
    chat = Chat(source, {"max_new_tokens": 8}, system, out)
    chat.run()
    return chat, out.getvalue()


def test_a_conversation_remembers_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted("Par", "is.")
    chat, out = talk(source, "Capital of France?\n\nSure?\n", monkeypatch, system="Be brief.")
    assert out == "Paris.\nParis.\n"
    assert [message["role"] for message in source.seen[1]] == ["system", "user", "assistant", "user"]
    assert chat.messages[-1] == {"role": "assistant", "content": "Paris."}


def test_reset_keeps_only_the_system_message(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted("x")
    talk(source, "one\n/reset\ntwo\n", monkeypatch, system="s")
    assert source.seen[1] == [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}]


def test_exit_leaves_and_unknown_commands_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted("x")
    _, out = talk(source, "/help\n/exit\nnever\n", monkeypatch)
    assert source.seen == []
    assert "Unknown command /help" in out


def test_ctrl_c_stops_the_answer_and_keeps_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted("half", KeyboardInterrupt(), "never")
    chat, out = talk(source, "go\n", monkeypatch)
    assert out == "half\n"
    assert chat.messages[-1] == {"role": "assistant", "content": "half"}
    assert source.closed == 1


def test_an_error_takes_the_question_back(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    chat, _ = talk(Scripted(SourceError("too long")), "go\n", monkeypatch)
    assert chat.messages == []
    assert "Error: too long" in capsys.readouterr().err


def server(answer: httpx.Response | Exception, seen: list[httpx.Request]) -> ServerSource:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ServerSource(httpx.Client(base_url="http://server", transport=httpx.MockTransport(handle)))


def test_server_stream() -> None:
    seen: list[httpx.Request] = []
    events = (
        'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"Pa"}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"ris"}},{"delta":{"content":null}}]}\n\n'
        'data: {"choices":[],"usage":{}}\n\ndata: [DONE]\n\n'
    )
    source = server(httpx.Response(200, text=events), seen)
    messages = [{"role": "user", "content": "q"}]
    assert "".join(source.stream(messages, {"max_new_tokens": 4, "temperature": 0})) == "Paris"
    assert seen[0].url == "http://server/v1/chat/completions"
    assert httpx.Response(200, content=seen[0].content).json() == {
        "model": "default",
        "messages": messages,
        "stream": True,
        "max_tokens": 4,
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (httpx.Response(401, text='{"error":"Unauthorized"}'), "the server answered 401"),
        (httpx.ConnectError("refused"), "no answer from http://server: refused"),
        (httpx.Response(200, text='data: {"error":{"message":"boom"}}\n\n'), "broke off: {'message': 'boom'}"),
    ],
)
def test_server_errors(answer: httpx.Response | Exception, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        list(server(answer, []).stream([], {}))


class FakeEngine:
    """Streams the text so far, as the engine does."""

    def __init__(self, template: object) -> None:
        self.tokenizer_manager = self
        self.model_config = self
        self.chat_template = template
        self.generation_config = {"temperature": 0.2, "top_k": None, "eos_token_id": 2}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def render(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        return f"<{messages[-1]['content']}|{add_generation_prompt}>"

    def generate(self, prompt: str, params: dict[str, Any], stream: bool) -> Iterator[dict[str, Any]]:
        self.calls.append((prompt, params))
        yield from ({"text": text} for text in ("P", "Pa", "Pa", "Paris"))


def test_engine_stream_renders_the_template_and_yields_new_text_only() -> None:
    engine = FakeEngine(template=None)
    engine.chat_template = engine
    source = EngineSource(engine)  # type: ignore[arg-type]
    assert list(source.stream([{"role": "user", "content": "q"}], {"max_new_tokens": 4})) == ["P", "a", "", "ris"]
    assert engine.calls == [("<q|True>", {"temperature": 0.2, "max_new_tokens": 4})]


def test_engine_without_a_template_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"--chat-template FILE\.jinja, or use --raw"):
        list(EngineSource(FakeEngine(None)).stream([], {}))  # type: ignore[arg-type]


def test_open_server_sends_the_key() -> None:
    with sources.open_server("http://server/", "k") as source:
        assert source._client.headers["Authorization"] == "Bearer k"
