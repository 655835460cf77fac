"""How busy each data-parallel rank is: /v1/loads (JSON or Prometheus text) and its older form."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from sglang.api.answers import JSON_OR_TEXT_200, info_responses
from sglang.api.errors import http_error, json_response
from sglang.api.work import manager
from sglang.version import __version__

router = APIRouter(tags=["info"], responses=info_responses())

SECTIONS = {
    "memory": "memory",
    "spec": "speculative",
    "lora": "lora",
    "disagg": "disaggregation",
    "queues": "queues",
}
"""Name in ``include`` → key in a load record."""

NOT_DISAGGREGATED: dict[str, Any] = {
    "mode": "null",
    "prefill_bootstrap_queue_reqs": 0,
    "prefill_inflight_queue_reqs": 0,
    "decode_prealloc_queue_reqs": 0,
    "decode_transfer_queue_reqs": 0,
    "decode_retracted_queue_reqs": 0,
    "kv_transfer_speed_gb_s": 0.0,
    "kv_transfer_latency_ms": 0.0,
}
"""The section of a server that does prefill and decode in one place, which is the only kind there is."""

_PROMETHEUS_PREFIX = {key: name for name, key in SECTIONS.items()}


@router.get("/v1/loads", responses=JSON_OR_TEXT_200)
async def loads(
    request: Request,
    dp_rank: Annotated[int | None, Query(description="one rank only")] = None,
    include: Annotated[str, Query(description="comma list of core, memory, spec, lora, disagg, queues, all")] = "all",
    format: Annotated[Literal["json", "prometheus"], Query()] = "json",
) -> Response:
    """Queue lengths, KV use and throughput of each rank."""
    wanted = _wanted(include)
    complete = [{**record, "disaggregation": NOT_DISAGGREGATED} for record in await manager(request).loads()]
    records = [_select(record, wanted) for record in complete]
    if dp_rank is not None:
        records = [record for record in records if record.get("dp_rank") == dp_rank]
    if format == "prometheus":
        text = "\n".join(_prometheus(records)) + "\n"
        return Response(text, headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})
    now = datetime.now(timezone.utc).isoformat()
    head = {"timestamp": now, "version": __version__, "accelerator": None, "num_accelerators": 1}
    return json_response({**head, "loads": records})


@router.get("/get_load")
async def get_load(request: Request) -> Response:
    """Older, smaller form of /v1/loads."""
    return json_response([_old_record(record) for record in await manager(request).loads()])


def _old_record(record: dict[str, Any]) -> dict[str, Any]:
    waiting = record.get("num_waiting_reqs", 0)
    return {
        "rid": None,
        "dp_rank": record.get("dp_rank", 0),
        "num_reqs": record.get("num_running_reqs", 0) + waiting,
        "num_waiting_reqs": waiting,
        "num_tokens": record.get("num_used_tokens", 0),
    }


def _wanted(include: str) -> frozenset[str]:
    names = frozenset(part.strip() for part in include.split(",") if part.strip())
    accepted = {"core", "all", *SECTIONS}
    if unknown := names - accepted:
        raise http_error(
            400, f"include: unknown section {sorted(unknown)[0]!r}; accepted: {', '.join(sorted(accepted))}"
        )
    return frozenset(accepted - {"all"}) if "all" in names or not names else names


def _select(record: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    sections = set(SECTIONS.values())
    kept: dict[str, Any] = {}
    for key, value in record.items():
        if key in ("timestamp", "dp_rank"):
            kept[key] = value
        elif key in sections:
            if _PROMETHEUS_PREFIX[key] in wanted:
                kept[key] = value
        elif "core" in wanted:
            kept[key] = value
    return kept


def _prometheus(records: list[dict[str, Any]]) -> Iterator[str]:
    """One gauge a number; a section's keys carry its name."""
    gauges: dict[str, list[str]] = {}
    for record in records:
        rank = record.get("dp_rank", 0)
        for name, value in _numbers(record):
            gauges.setdefault(name, []).append(f'sglang_{name}{{dp_rank="{rank}"}} {value}')
    for name, lines in gauges.items():
        yield f"# TYPE sglang_{name} gauge"
        yield from lines


def _numbers(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in record.items():
        if isinstance(value, dict):
            prefix = _PROMETHEUS_PREFIX.get(key, key)
            yield from ((f"{prefix}_{name}", number) for name, number in _numbers(value))
        elif isinstance(value, int | float) and not isinstance(value, bool) and key not in ("dp_rank", "timestamp"):
            yield key, value
