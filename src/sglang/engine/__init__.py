"""Start, hold and stop a whole system of processes."""
