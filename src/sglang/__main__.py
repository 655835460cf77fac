"""``python -m sglang`` is the ``sglang`` command."""

import sys

from sglang.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
