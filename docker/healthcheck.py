"""The image's HEALTHCHECK: ends with 0 when the URL answers 200, else with 1 and one line that says why."""

import http.client
import sys
from urllib.parse import urlsplit

TIMEOUT_S = 4.0
SHOWN_BYTES = 500


def fault(url: str) -> str:
    """What is wrong; "" when all is well."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"{place.path}?{place.query}")
        answer = connection.getresponse()
        body = answer.read(SHOWN_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{url}: {error}"
    finally:
        connection.close()
    return "" if answer.status == http.client.OK else f"{url}: {answer.status} {body}"


if __name__ == "__main__":
    sys.exit(fault(sys.argv[1]) or 0)
