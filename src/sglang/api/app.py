"""Builds the application: routers of every family, the layers around them, one OpenAPI document."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from sglang.api import sagemaker, vertex
from sglang.api.anthropic import routes as anthropic
from sglang.api.anthropic.errors import PATH as ANTHROPIC_PATH
from sglang.api.anthropic.errors import error_shape as anthropic_shape
from sglang.api.auth import AuthMiddleware, access_table, x_api_key_paths
from sglang.api.chat.core import ChatCore
from sglang.api.error_shapes import ErrorShapeMiddleware, Shape
from sglang.api.errors import add_error_handlers
from sglang.api.lifecycle import Lifecycle
from sglang.api.middleware import MAX_BODY_BYTES, BodyLimitMiddleware, LifecycleMiddleware
from sglang.api.native import control, generate, health, info, loads, parse
from sglang.api.ollama import routes as ollama
from sglang.api.ollama.errors import error_shape as ollama_shape
from sglang.api.openai import batches, chat, completions, files, models, tokenize
from sglang.api.openai.batch.storage import Storage
from sglang.api.openai.completion_template import load_completion_template
from sglang.api.openai.responses import routes as responses
from sglang.api.openai.responses.store import ResponseStore
from sglang.api.openapi import build_document
from sglang.config.env import Env, read_env
from sglang.version import __version__

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager

FAMILIES = (
    generate,
    completions,
    chat,
    responses,
    anthropic,
    health,
    info,
    loads,
    control,
    models,
    tokenize,
    files,
    batches,
    parse,
    sagemaker,
    ollama,
    vertex,
)
"""Modules with a ``router``; the busiest first, since routes are tried in order."""

RENAMED = (ollama, vertex)
"""Families whose paths the environment can change: ``make_router``; ``router`` has the usual paths."""


def create_app(tm: TokenizerManager, server_args: ServerArgs) -> FastAPI:
    """The whole HTTP side over one tokenizer manager.

    ``app.state`` holds what handlers read: ``tm``, ``args``, ``chat``, ``lifecycle``, ``created``,
    ``completion_template``, ``responses``, ``storage``. Raises ValueError for settings that can't be used.
    """
    no_docs = read_env().disable_openapi_doc
    app = FastAPI(
        title="sglang",
        version=__version__,
        openapi_url=None if no_docs else "/openapi.json",
    )
    app.state.tm = tm
    app.state.args = server_args
    app.state.lifecycle = Lifecycle()
    app.state.created = int(time.time())
    app.state.chat = ChatCore(tm, server_args)
    app.state.responses = ResponseStore() if server_args.enable_response_store else None
    app.state.storage = _open_storage(app, tm, server_args)
    template = server_args.completion_template
    app.state.completion_template = None if template is None else load_completion_template(template)
    for router in _routers(read_env()):
        app.include_router(router)
    add_error_handlers(app)
    _add_layers(app, server_args)
    app.openapi = lambda: build_document(app)  # type: ignore[method-assign]
    return app


def _open_storage(app: FastAPI, tm: TokenizerManager, server_args: ServerArgs) -> Storage | None:
    if server_args.file_storage_path is None:
        return None
    storage = Storage(Path(server_args.file_storage_path), app, tm, server_args)
    app.state.lifecycle.on_ready.append(storage.worker.start)
    return storage


def _routers(env: Env) -> list[APIRouter]:
    fixed = [module.router for module in FAMILIES if module not in RENAMED]
    return fixed + [module.make_router(env) for module in RENAMED]


def _add_layers(app: FastAPI, server_args: ServerArgs) -> None:
    """Innermost first."""
    routes = [route for module in FAMILIES for route in module.router.routes]
    app.add_middleware(BodyLimitMiddleware, limit=MAX_BODY_BYTES)
    app.add_middleware(
        AuthMiddleware,
        table=access_table(routes),
        api_key=server_args.api_key,
        admin_api_key=server_args.admin_api_key,
        x_api_key_paths=x_api_key_paths(routes),
    )
    # Any page may read answers, but never with the user's cookies or certificates: keys travel in a header that the
    # page must know. Control routes are closed to foreign pages by AuthMiddleware.
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(LifecycleMiddleware, lifecycle=app.state.lifecycle)
    app.add_middleware(ErrorShapeMiddleware, shapes=_error_shapes(read_env()))


def _error_shapes(env: Env) -> list[tuple[str, Shape]]:
    own = {"/api", env.ollama_chat_route, env.ollama_generate_route, env.ollama_tags_route, env.ollama_show_route}
    return [(ANTHROPIC_PATH, anthropic_shape), *((path, ollama_shape) for path in sorted(own))]
