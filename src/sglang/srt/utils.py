"""Old address of process helpers."""

from sglang.system.process import kill_process_tree as kill_process_tree
