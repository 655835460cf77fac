"""An application over the fake manager, called in process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from sglang.api.app import create_app
from sglang.config.server_args import ServerArgs
from unit.api.fake_manager import FakeTokenizerManager


@pytest.fixture
def make_client() -> Callable[..., httpx.AsyncClient]:
    """``make_client(tm=None, **server_args)``: a client whose ``.tm`` and ``.app`` are the parts behind it."""

    def make(tm: FakeTokenizerManager | None = None, **kwargs: Any) -> httpx.AsyncClient:
        args = ServerArgs(model_path="org/model", served_model_name="fake", **kwargs)
        tm = tm or FakeTokenizerManager(args)
        app = create_app(tm, args)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://test")
        client.tm, client.app = tm, app  # type: ignore[attr-defined]
        return client

    return make


@pytest.fixture
async def client(make_client: Callable[..., httpx.AsyncClient]) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as made:
        yield made
