"""Request bodies, field by field. Answers are built as plain dicts and bytes: no models on the hot path."""
