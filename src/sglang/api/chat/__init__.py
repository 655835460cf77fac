"""Chat without a family: what all families turn their requests into, and how it becomes a prompt."""
