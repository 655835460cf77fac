"""The machine under us: processes, ports. Standard library and psutil only."""
