"""GET /v1/models: the base model's card and those of its adapters."""

from __future__ import annotations

import httpx
import pytest

LORA = ["/adapters/sql", "chat=/adapters/chat", '{"lora_name": "x/y", "lora_path": "/adapters/z", "pinned": true}']


async def test_the_served_model_has_one_card_whose_date_stands_still(client: httpx.AsyncClient) -> None:
    body = (await client.get("/v1/models")).json()
    assert body["object"] == "list"
    card = body["data"][0]
    assert card == {
        "id": "fake", "object": "model", "created": client.app.state.created, "owned_by": "sglang", "root": "fake",
        "parent": None, "max_model_len": 2048,
    }  # fmt: skip
    client.app.state.created -= 1000  # as if the server had started earlier
    assert (await client.get("/v1/models/fake")).json()["created"] == card["created"] - 1000


async def test_adapters_are_listed_and_found(client: httpx.AsyncClient) -> None:
    client.app.state.args.lora_paths = LORA
    cards = (await client.get("/v1/models")).json()["data"][1:]
    assert [(card["id"], card["root"], card["parent"], card["max_model_len"]) for card in cards] == [
        ("/adapters/sql", "/adapters/sql", "fake", None),
        ("chat", "/adapters/chat", "fake", None),
        ("x/y", "/adapters/z", "fake", None),
    ]
    for name in ("chat", "fake:chat"):
        assert (await client.get(f"/v1/models/{name}")).json() == cards[1]


@pytest.mark.parametrize("name", ["other", "fake:", "fake:other", "fake/x", "Fake", "x" * 2000])
async def test_unknown_models_are_not_found(client: httpx.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/models/{name}")
    assert response.status_code == 404
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "model", "model_not_found")
    assert name[:200] in error["message"]
