"""Probes: is the process there, may it take traffic, does the model really answer."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.answers import EMPTY_200, probe_responses
from sglang.api.auth import open_to_all
from sglang.api.work import lifecycle, manager
from sglang.config.env import read_env

router = APIRouter(tags=["health"], responses=probe_responses())


@router.get("/ready", response_class=Response, responses=EMPTY_200)
@open_to_all
async def ready(request: Request) -> Response:
    """200 while new requests are taken and run at once: up, healthy, not paused, not stopping."""
    life = lifecycle(request)
    return _answer(life.serving and not life.unhealthy and manager(request).status == "up")


@router.get("/ping", response_class=Response, responses=EMPTY_200)
async def ping(request: Request) -> Response:
    """As /ready, but a paused server is fine. Never runs the model."""
    life = lifecycle(request)
    return _answer(life.serving and not life.unhealthy and manager(request).status in ("up", "paused"))


@router.get("/health", response_class=Response, responses=EMPTY_200)
@open_to_all
async def health(request: Request) -> Response:
    """Generates one hidden token, unless SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION is false."""
    if not read_env().enable_health_endpoint_generation:
        return _answer(lifecycle(request).serving and manager(request).status in ("up", "paused"))
    return await health_generate(request)


@router.get("/health_generate", response_class=Response, responses=EMPTY_200)
@open_to_all
async def health_generate(request: Request) -> Response:
    """200 as soon as anything came back from the model since the call; 503 after SGLANG_HEALTH_CHECK_TIMEOUT."""
    life = lifecycle(request)
    tm = manager(request)
    if not life.serving or tm.status not in ("up", "paused"):
        return _answer(False)
    alive = await tm.health_generate(read_env().health_check_timeout)
    life.unhealthy = not alive
    return _answer(alive and not life.stopping)


def _answer(good: bool) -> Response:
    return Response(status_code=200 if good else 503)
