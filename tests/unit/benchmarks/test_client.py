"""Bytes of an HTTP answer become a reply, however they were cut."""

from __future__ import annotations

import json

import pytest

from benchmarks.serving.client import ServerSaidNo, read_reply

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(data: object) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def text(piece: str) -> dict[str, object]:
    return {"choices": [{"text": piece}], "usage": None}


USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}
BODY = [chunk(event(text("Hé"))), chunk(event(text("")) + event(text(" you"))), chunk(event(USAGE) + event(b"[DONE]"))]
STREAM = HEAD + b"".join(BODY) + b"0\r\n\r\n"


def test_text_counts_and_times() -> None:
    pieces = [(1.0, HEAD + BODY[0]), (2.5, BODY[1]), (4.0, BODY[2]), (5.0, b"0\r\n\r\n")]
    reply = read_reply("p", 3, 0.5, pieces)
    assert (reply.text, reply.n_in, reply.n_out, reply.counted) == ("Hé you", 5, 3, True)
    assert (reply.stamps, reply.end, reply.ttft, reply.gaps) == ([1.0, 2.5], 5.0, 0.5, [1.5])


def test_any_cut_gives_the_same_text() -> None:
    for at in range(1, len(STREAM)):
        reply = read_reply("p", 3, 0.0, [(1.0, STREAM[:at]), (2.0, STREAM[at:])])
        assert (reply.text, reply.n_out) == ("Hé you", 3)


def test_a_piece_has_the_time_of_its_last_byte() -> None:
    middle = len(HEAD) + 10
    assert read_reply("p", 3, 0.0, [(1.0, STREAM[:middle]), (2.0, STREAM[middle:])]).stamps == [2.0, 2.0]


def test_a_body_that_is_not_chunked() -> None:
    stream = b"HTTP/1.1 200 OK\r\n\r\n" + event(text("a")) + event(b"[DONE]")
    reply = read_reply("p", 1, 0.0, [(1.0, stream)])
    assert (reply.text, reply.n_out, reply.counted) == ("a", 1, False)


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 4\r\n\r\nnope", "400: b'nope'"),
        (HEAD + BODY[0], "without .DONE. after 1"),
        (HEAD + chunk(event({"error": {"message": "full"}})), "broke off.*full"),
        (b"HTTP/1.1 200", "closed the connection after 12 bytes"),
    ],
)
def test_bad_answers_say_what_came(stream: bytes, said: str) -> None:
    with pytest.raises(ServerSaidNo, match=said):
        read_reply("p", 3, 0.0, [(1.0, stream)])
