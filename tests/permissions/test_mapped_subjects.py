"""Mapped first, judged afterwards: what reaches anybody, in any account, is what a naive model of all rules allows."""

from __future__ import annotations

import re
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.accounts.account import Account
from jetbroker.accounts.graph import check
from jetbroker.accounts.sharing import Sharing
from jetbroker.config.options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    MappingOptions,
    Options,
    PermissionsOptions,
    SubjectPermissions,
)
from jetbroker.routing.mapping import domain_mappings
from tests.permissions.test_model import fits, permitted
from tests.support.inprocess import FakeClient, World

RESTS = ["INFO", "INFO.x", "STREAM.DELETE.S", "STREAM", "CONSUMER.x", "OTHER.x", "$KV.b.k", "$KV", "$OBJ.b.c"]
LITERALS = [
    *(f"$JS.hub.API.{rest}" for rest in RESTS),
    *(f"$JS.API.{rest}" for rest in RESTS),
    *("$KV.b.k", "$OBJ.b.c", "a.b", "a.c", "out.a", "far.INFO", "far.STREAM.DELETE.S", "far.$KV.b.k", "far.OTHER.x"),
]
DOMAIN = {
    "INFO": "$JS.API.INFO",
    **{f"{part}.>": f"$JS.API.{part}.>" for part in ("STREAM", "CONSUMER", "DIRECT", "META", "SERVER", "ACCOUNT")},
    "$KV.>": "$KV.>",
    "$OBJ.>": "$OBJ.>",
}
ENTRIES = st.sampled_from(
    ["$JS.API.>", "$JS.hub.API.>", "$JS.API.STREAM.DELETE.*", "$JS.hub.API.STREAM.>", "$KV.>", "$KV.b.*", "$JS.>", ">",
     "$JS.hub.API.$KV.>", "$JS.*.API.>", "$JS.API.INFO", "$OBJ.>", "a.*", "a.b", "far.>", "far.INFO", "out.>", "m.>",
     "in.>", "in.out.>", "in.out.a"]
)  # fmt: skip
RULES = st.builds(
    SubjectPermissions, st.one_of(st.none(), st.lists(ENTRIES, min_size=1, max_size=4)), st.lists(ENTRIES, max_size=3)
)
MAPPINGS = st.dictionaries(
    st.sampled_from(["a.b", "a.*", "out.a", "$KV.b.k", "$JS.hub.API.INFO", "$JS.hub.API.STREAM.*.*", "$JS.API.*"]),
    st.sampled_from(["m.x", "out.a", "far.INFO", "$JS.hub.API.STREAM.DELETE.S", "$JS.API.STREAM.DELETE.S", "$KV.b.k"]),
    max_size=3,
)
SERVICES = st.sampled_from(["$JS.hub.API.>", "$JS.API.>", "x.>", "out.>"])


# --- the model ---


def mapped(mappings: dict[str, str], with_domain: bool, literal: str) -> str:
    """Of an account's own mappings literal ones come first, and those of the domain last; only one of them counts."""
    for source in sorted(mappings, key=lambda source: "*" in source or ">" in source):
        if fits(literal, source):
            return mappings[source]
    if with_domain and literal.startswith("$JS.hub.API."):
        rest = literal.removeprefix("$JS.hub.API.")
        for source, target in DOMAIN.items():
            if fits(rest, source):
                return target.replace(">", rest.partition(".")[2])
    return literal


class Accounts:
    """A, which imports a service of B's as `far.>`; B imports `out.>` of A's as `in.out.>`."""

    def __init__(self, of_a: dict[str, str], of_b: dict[str, str], service: str, domains: tuple[bool, bool]) -> None:
        self.world = World()
        self.accounts = {name: Account(name, self.world.tick) for name in "AB"}
        options = Options(
            accounts={
                "A": AccountOptions(
                    "A",
                    mappings=mapping_options(of_a),
                    exports=[ExportOptions("stream", "out.>")],
                    imports=[ImportOptions("service", "B", service, to="far.>")],
                ),
                "B": AccountOptions(
                    "B",
                    mappings=mapping_options(of_b),
                    exports=[ExportOptions("service", service)],
                    imports=[ImportOptions("stream", "A", "out.>", prefix="in")],
                ),
            }
        )
        Sharing(SimpleNamespace(server_name="server", cluster=""), "$SYS").apply(self.accounts, check(options))
        for account, has_domain in zip(self.accounts.values(), domains, strict=True):
            account.router.domain = domain_mappings("hub") if has_domain else None

    def client(self, account: str, permissions: PermissionsOptions | None = None) -> FakeClient:
        self.world.account = self.accounts[account]  # type: ignore[assignment]
        self.world.router = self.accounts[account].router
        return self.world.client(permissions)


def mapping_options(mappings: dict[str, str]) -> list[MappingOptions]:
    return [MappingOptions(source, [MappingDestination(target, 100)]) for source, target in mappings.items()]


def heard(client: FakeClient) -> list[str]:
    return sorted(subject.decode() for subject in re.findall(rb"MSG (\S+) 1 ", client.heard()))


@settings(max_examples=150, deadline=None)
@given(
    rules=RULES,
    reading=RULES,
    of_a=MAPPINGS,
    of_b=MAPPINGS,
    service=SERVICES,
    domains=st.tuples(st.booleans(), st.booleans()),
)
def test_nothing_arrives_but_what_the_rules_allow(
    rules: SubjectPermissions,
    reading: SubjectPermissions,
    of_a: dict[str, str],
    of_b: dict[str, str],
    service: str,
    domains: tuple[bool, bool],
) -> None:
    made = Accounts(of_a, of_b, service, domains)
    in_a, in_b, importer = made.client("A"), made.client("B"), made.client("B", PermissionsOptions(subscribe=reading))
    in_a.say(b"SUB > 1\r\n")
    in_b.say(b"SUB > 1\r\n")
    may_import = importer.say(b"SUB in.> 1\r\n") == b""
    assert may_import == permitted(reading, "in.>", None)

    targets = [mapped(of_a, domains[0], literal) for literal in LITERALS]
    sent = [target for target in targets if permitted(rules, target, None)]
    asked = [target.removeprefix("far.") for target in sent if target.startswith("far.")]
    served = [mapped(of_b, domains[1], service.replace(">", rest)) for rest in asked]
    streamed = [f"in.{target}" for target in sent if fits(target, "out.>")]

    writer = made.client("A", PermissionsOptions(publish=rules))
    for _ in range(2):  # unknown subjects, then those that are remembered
        refusals = writer.say(b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS))
        assert refusals.count(b"Permissions Violation for Publish") == len(LITERALS) - len(sent)
        assert heard(in_a) == sorted(sent)
        assert heard(in_b) == sorted(served + streamed)
        permitted_here = [local for local in streamed if permitted(reading, local, None)]
        assert heard(importer) == (sorted(permitted_here) if may_import else [])
