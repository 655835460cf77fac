"""Old addresses."""
