"""URLs as Go's net/url takes them apart and writes them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jetbroker.forms.gourl import Url, format_url, parse_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("nats://h:5", Url("nats", host="h", port="5")),
        ("NATS://u@h", Url("nats", "u", host="h")),
        ("nats://u:@h", Url("nats", "u", "", "h")),
        ("nats://u%40x:p%3Aq@h/a?b#c", Url("nats", "u@x", "p:q", "h", rest="/a?b#c")),
        ("ws://[::1]:80/p", Url("ws", host="[::1]", port="80", rest="/p")),
        ("nats:h:5", Url("nats", opaque="h:5")),
        ("nats:/h", Url("nats", opaque="/h")),
        ("//h:5", Url(host="h", port="5")),
        ("h/a", Url(rest="h/a")),
        ("", Url()),
    ],
)
def test_the_parts_of_a_url(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (":5", "missing protocol scheme"),
        ("127.0.0.1:5", "first path segment"),
        ("nats://h:x", "invalid port"),
        ("nats://a b", "invalid character"),
        ("nats://a%20b", "invalid character"),
        ("nats://a[::1]", "invalid IP-literal"),
        ("nats://[::1", "missing ']'"),
        ("nats://[x]:5", "invalid host"),
        ("nats://u[@h", "invalid userinfo"),
        ("nats://u%zz@h", "invalid URL escape"),
        ("nats://h/%z", "invalid URL escape"),
        ("nats://h#%z", "invalid URL escape"),
        ("nats://h\n", "control character"),
    ],
)
def test_what_is_no_url(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("]", r"\]")):
        parse_url(text)


PARTS = st.text(st.sampled_from("ab:/@?#%25[]!é &=.-"), max_size=12)


@given(st.one_of(PARTS, PARTS.map("nats://".__add__), PARTS.map("nats://u:p@h/".__add__)))
@example("nats://%a2")
@example("nats://%a2:%a2@h")
@example("nats://::")
@example("nats://:.:")
def test_whatever_is_written_is_read_as_the_same(text: str) -> None:
    try:
        url = parse_url(text)
    except ValueError:
        return
    assert parse_url(format_url(url)) == url
