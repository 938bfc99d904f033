"""`python -m jetbroker`."""

import sys

from jetbroker.daemon.cli import main

if __name__ == "__main__":
    sys.exit(main())
