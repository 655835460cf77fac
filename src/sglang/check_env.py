"""``python -m sglang.check_env``: old name of ``sglang env``."""

import sys

from sglang.cli.env import main

if __name__ == "__main__":
    sys.exit(main())
