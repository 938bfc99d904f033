"""Start a leaf of compose.leafnodes.yaml: its URL of the hub has LEAF_PASSWORD in it, whatever characters that has."""

import os
import sys
from urllib.parse import quote

if __name__ == "__main__":
    password = quote(os.environ["LEAF_PASSWORD"], safe="")
    os.environ["HUB_URL"] = f"'nats-leaf://leaf:{password}@{os.environ['HUB']}'"
    os.execvp("jetbroker", ["jetbroker", *sys.argv[1:]])
