"""Old address of the server's settings."""

from sglang.config.ports import PortArgs as PortArgs
from sglang.config.server_args import ServerArgs as ServerArgs
from sglang.config.server_args import prepare_server_args as prepare_server_args
