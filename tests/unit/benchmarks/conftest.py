"""Makes the folder benchmarks/ importable, wherever the tests are started from."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
