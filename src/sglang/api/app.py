"""Builds the application: routers of every family, the layers around them, one OpenAPI document."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from sglang.api.anthropic import routes as anthropic
from sglang.api.anthropic.errors import PATH as ANTHROPIC_PATH
from sglang.api.anthropic.errors import error_shape as anthropic_shape
from sglang.api.auth import AuthMiddleware, access_table, x_api_key_paths
from sglang.api.chat.core import ChatCore
from sglang.api.error_shapes import ErrorShapeMiddleware
from sglang.api.errors import add_error_handlers
from sglang.api.lifecycle import Lifecycle
from sglang.api.middleware import MAX_BODY_BYTES, BodyLimitMiddleware, LifecycleMiddleware
from sglang.api.native import control, generate, health, info, loads, parse
from sglang.api.openai import chat, completions, models, tokenize
from sglang.api.openai.completion_template import load_completion_template
from sglang.api.openapi import build_document
from sglang.config.env import read_env
from sglang.version import __version__

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager

FAMILIES = (generate, completions, chat, anthropic, health, info, loads, control, models, tokenize, parse)
"""Modules with a ``router``; the busiest first, since routes are tried in order."""


def create_app(tm: TokenizerManager, server_args: ServerArgs) -> FastAPI:
    """The whole HTTP side over one tokenizer manager.

    ``app.state`` holds what handlers read: ``tm``, ``args``, ``chat``, ``lifecycle``, ``created``,
    ``completion_template``.
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
    template = server_args.completion_template
    app.state.completion_template = None if template is None else load_completion_template(template)
    for module in FAMILIES:
        app.include_router(module.router)
    add_error_handlers(app)
    _add_layers(app, server_args)
    app.openapi = lambda: build_document(app)  # type: ignore[method-assign]
    return app


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
    app.add_middleware(ErrorShapeMiddleware, shapes=((ANTHROPIC_PATH, anthropic_shape),))
