"""``python -m sglang.launch_server``: old name of ``sglang serve``."""

import sys
import warnings

from sglang.cli.serve import main

if __name__ == "__main__":
    warnings.warn(
        "'python -m sglang.launch_server' still works; 'sglang serve' is preferred.", UserWarning, stacklevel=1
    )
    sys.exit(main(sys.argv[1:], prog="python -m sglang.launch_server"))
