"""The HTTP doors: one room per API family over the same tokenizer manager."""
