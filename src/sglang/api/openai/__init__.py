"""The OpenAI-compatible family."""
