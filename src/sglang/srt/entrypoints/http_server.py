"""Old address of the HTTP server."""

from sglang.api.server import launch_server as launch_server
