"""`python -m jetbroker`."""

import sys

from jetbroker.cli import main

if __name__ == "__main__":
    sys.exit(main())
