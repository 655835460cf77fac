"""From a request to its finished results, for the families that don't stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from fastapi import Request

from sglang.api.lifecycle import Lifecycle
from sglang.api.streaming import unless_disconnected
from sglang.ipc.inputs import GenerateReqInput

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.processes.tokenizer.streams import RequestGroup


DEFAULT_MODEL = "default"
"""Stands for the served model in requests of every family."""


def manager(request: Request) -> TokenizerManager:
    return cast("TokenizerManager", request.app.state.tm)


def args(request: Request) -> ServerArgs:
    return cast("ServerArgs", request.app.state.args)


def served_model(request: Request) -> str:
    """The name under which the model is served."""
    return args(request).served_model_name or args(request).model_path


def lifecycle(request: Request) -> Lifecycle:
    return cast(Lifecycle, request.app.state.lifecycle)


async def run(request: Request, obj: GenerateReqInput) -> RequestGroup:
    """Submit, wait until every stream has finished, and hand the group back.

    Aborts the work when the client goes away. Raises InvalidRequest, or RequestAborted where the scheduler ended a
    stream with an HTTP status.
    """
    work = _run(manager(request), obj)
    group = await (work if obj.background else unless_disconnected(request.receive, work))
    for stream in group.streams:
        stream.raise_for_abort()
    return group


async def _run(tm: TokenizerManager, obj: GenerateReqInput) -> RequestGroup:
    group = await tm.submit(obj)
    try:
        await group.wait()
    except BaseException:
        group.abort()
        raise
    return group
