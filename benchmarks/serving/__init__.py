"""Serving benchmarks: the same workloads on this server and on other people's, in one run."""
