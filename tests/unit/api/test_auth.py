"""Keys: the whole table over every route, and browsers that act for foreign pages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.routing import Route

from sglang.api.app import FAMILIES
from sglang.api.auth import Access, access_table

USER, ADMIN = "sk-user", "sk-admin"
KEYS = {
    "none": {},
    "api": {"api_key": USER},
    "admin": {"admin_api_key": ADMIN},
    "both": {"api_key": USER, "admin_api_key": ADMIN},
}
# class -> setup -> callers (no key, wrong key, API key, admin key) that get in
TABLE = {
    Access.NORMAL: {"none": "nwua", "api": "u", "admin": "nwua", "both": "u"},
    Access.ADMIN_OPTIONAL: {"none": "nwua", "api": "u", "admin": "a", "both": "a"},
    Access.OPEN: dict.fromkeys(KEYS, "nwua"),
}
CALLERS = {"n": None, "w": "wrong", "u": USER, "a": ADMIN}
ADMIN_PATHS = {"/flush_cache", "/abort_request", "/pause_generation", "/continue_generation", "/configure_logging"}
OPEN_PATHS = {"/health", "/health_generate", "/ready", "/metrics"}


def own_routes() -> list[Any]:
    return [route for module in FAMILIES for route in module.router.routes]


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def test_classes_of_all_routes_are_the_documented_ones() -> None:
    table = access_table(own_routes())
    assert {path for path, access in table.items() if access is Access.ADMIN_OPTIONAL} == ADMIN_PATHS
    assert {path for path, access in table.items() if access is Access.OPEN} == OPEN_PATHS


@pytest.mark.parametrize("setup", KEYS)
async def test_every_route_follows_the_table(make_client: Any, setup: str) -> None:
    async with make_client(**KEYS[setup]) as client:
        table = access_table(own_routes())
        documentation = [route for route in client.app.routes if isinstance(route, Route)]
        routes = [*own_routes(), *documentation]
        assert len(routes) > 25
        for route in routes:
            path = route.path.replace("{model:path}", "x")
            access = table.get(path, Access.NORMAL)
            for method in sorted(route.methods or ()):
                for caller, key in CALLERS.items():
                    response = await client.request(method, path, headers=bearer(key))
                    allowed = caller in TABLE[access][setup]
                    where = (setup, method, path, caller, response.status_code)
                    assert (response.status_code == 401) == (not allowed), where
                    if not allowed and method != "HEAD":
                        assert response.json() == {"error": "Unauthorized"}


@pytest.mark.parametrize(
    "path", ["/nope", "/healthz", "/health/x", "/health_", "/metricsx", "//health", "/flush_cache/"]
)
async def test_unknown_paths_are_closed_too(make_client: Any, path: str) -> None:
    async with make_client(**KEYS["both"]) as client:
        assert (await client.get(path)).status_code == 401


@pytest.mark.parametrize(
    "header", ["Basic c2stdXNlcg==", USER, f"Token {USER}", "Bearer", "Bearer ", f"Bearer {USER}x", "Bearer \xff"]
)
async def test_other_forms_of_the_header_are_refused(make_client: Any, header: str) -> None:
    async with make_client(api_key=USER) as client:
        response = await client.get("/v1/models", headers={"Authorization": header.encode("latin-1")})
        assert response.status_code == 401
        assert (await client.get("/v1/models", headers={"x-api-key": USER})).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_scheme_ignores_case(make_client: Any, scheme: str) -> None:
    async with make_client(api_key=USER) as client:
        response = await client.get("/v1/models", headers={"Authorization": f"{scheme} {USER}"})
        assert response.status_code == 200


async def test_preflight_needs_no_key_and_offers_no_credentials(make_client: Any) -> None:
    ask = {"Origin": "http://x.example", "Access-Control-Request-Method": "POST"}
    async with make_client(**KEYS["both"]) as client:
        response = await client.options("/v1/chat/completions", headers=ask)
        assert (response.status_code, response.text) == (200, "OK")
        assert response.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_foreign_pages_can_read_but_not_control(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await client.get("/v1/models", headers=headers)).status_code == 200
    response = await client.get("/flush_cache", headers=headers)
    assert (response.status_code, response.json()) == (403, {"error": "Forbidden"})
    assert client.tm.calls == []


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://test"}, {"Sec-Fetch-Site": "same-origin"}])
async def test_own_pages_and_programs_can_control(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await client.post("/flush_cache", headers=headers)).status_code == 200


async def test_key_holders_can_control_from_any_page(make_client: Any) -> None:
    async with make_client(admin_api_key=ADMIN) as client:
        headers = {"Origin": "http://dash.example", **bearer(ADMIN)}
        assert (await client.post("/flush_cache", headers=headers)).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/proxy"])
async def test_paths_behind_a_proxy_prefix_keep_their_class(make_client: Any, prefix: str) -> None:
    app = make_client(api_key=USER).app
    transport = httpx.ASGITransport(app=app, root_path="/proxy")
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get(f"{prefix}/ready")).status_code == 200
        assert (await client.get(f"{prefix}/v1/models")).status_code == 401
