"""Old address of the engine."""

from sglang.engine.engine import Engine as Engine
