"""The Anthropic family: /v1/messages and /v1/messages/count_tokens, a translation of the chat core."""
