"""From token ids to text that can be shown."""
