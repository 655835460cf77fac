"""What must load without torch, and without the web framework."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in memory after ``statement`` ran in a fresh interpreter."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted({{n.split('.')[0] for n in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import sglang",
        "import sglang; sglang.ServerArgs",
        "import sglang.cli.main; sglang.cli.main.main(['--help'])",
        "import sglang.cli.serve",
        "import sglang.cli.chat",
        "import sglang.launch_server",
        "import sglang.srt.server_args",
    ],
)
def test_very_light(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "transformers", "fastapi", "uvicorn", "zmq", "numpy", "tokenizers"}


@pytest.mark.parametrize(
    "statement",
    [
        "import sglang; sglang.Engine",
        "import sglang.api.server",
        "import sglang.processes.detokenizer.process",
        "import sglang.processes.scheduler.core",
        "import sglang.executor.batch",
    ],
)
def test_without_torch(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "transformers"}
