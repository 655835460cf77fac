"""How close the served distributions are to float32, beside llama.cpp: ``python -m benchmarks.accuracy``."""
