"""The Ollama family: /api/*, for its command line, its SDKs and the programs that speak to them."""
