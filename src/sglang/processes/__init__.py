"""The three roles. They meet only in :mod:`sglang.ipc`."""
