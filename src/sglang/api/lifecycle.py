"""The life of the server as the probes and the shutdown see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lifecycle:
    """Owned by one application; no other state of the doors changes over time."""

    starting: bool = False
    """Between the first listen and the end of the warm-up."""
    stopping: bool = False
    """A stop was asked for; running requests may finish."""
    unhealthy: bool = False
    """The last health request got no answer from the model."""
    active: int = 0
    """Requests in progress, probes excluded."""
    on_ready: list[Callable[[], None]] = field(default_factory=list)
    """Called in the event loop when the server has become ready."""

    @property
    def serving(self) -> bool:
        return not self.starting and not self.stopping
