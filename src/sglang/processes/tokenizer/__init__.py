"""From what a caller asked to what the scheduler understands, and the outputs back to the right caller."""
