"""Files and batches in a folder: what the OpenAI Batch API keeps, and the worker that runs it."""
