"""What may cross a link, and which of it JetStream keeps apart by its domains.

A user's permissions are the spoke's: it publishes to the hub, and subscribes there. For the hub they stand the other
way round. Beside them come the denies of the spoke's own configuration, and those that keep each side's JetStream at
home (docs/LEAFNODES.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jetbroker.auth.permissions import Permissions
from jetbroker.config.options import PermissionsOptions, SubjectPermissions

# what every account imports
_IMPORTED = frozenset(
    (
        b"$JS.API.>",
        b"$SYS.REQ.ACCOUNT.PING.CONNZ",
        b"$SYS.REQ.ACCOUNT.PING.STATZ",
        b"$SYS.REQ.SERVER.PING.CONNZ",
        b"$SYS.REQ.USER.INFO",
    )
)
_OF_CLIENTS = ("$JS.API.>", "$KV.>", "$OBJ.>")
_OF_SERVERS = ("$JSC.>", "$NRG.>", *_OF_CLIENTS)


@dataclass(frozen=True, slots=True)
class Rules:
    """`link.publish`: what may be sent over it; `link.subscribe`: what may be asked for. None: everything.

    `accepts` judges what arrives, as something that is published; None: by `link.subscribe` on a spoke, not at all on
    a hub. `groups` denies queue groups behind the link what others there may get; None: nothing. `imported` is what a
    hub tells of whatever is allowed, as of what is mapped: a spoke without JetStream may ask for it.
    """

    link: Permissions | None
    accepts: Permissions | None
    groups: Permissions | None = None
    imported: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Domains:
    """What JetStream denies on a link: `both` ways, and what is `outgoing`; the others are for the log.

    `extended`: told by the system, not of the link: both sides are one JetStream.
    """

    both: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    extended: str = ""
    details: tuple[str, ...] = ()


def of_accepted(user: PermissionsOptions | None, denied: Iterable[str], domains: Domains) -> Rules:
    """On the side that accepted a link: `user` is who logged in, `denied` what the other side does not want."""
    user = user or PermissionsOptions()
    accepts = None
    if user.publish is not None or user.responses is not None:
        accepts = Permissions(PermissionsOptions(publish=user.publish, responses=user.responses))
    asked, groups = _without_groups(user.subscribe)
    return Rules(
        _both(
            _with_denied(asked, (*denied, *domains.both, *domains.outgoing)),
            _with_denied(user.publish, domains.both),
        ),
        accepts,
        groups,
    )


def of_solicited(
    imports: SubjectPermissions | None,
    exports: SubjectPermissions | None,
    deny_imports: Iterable[str],
    deny_exports: Iterable[str],
    domains: Domains,
    *,
    is_hub: bool,
) -> Rules:
    """On the side that dialled: what the other one's INFO allows, less what the remote's configuration denies.

    A hub that dialled lets in no more than it sends, but for what JetStream keeps at home.
    """
    accepts = _with_denied(exports, deny_exports) if is_hub else None
    return Rules(
        _both(
            _with_denied(exports, (*deny_exports, *domains.both, *domains.outgoing)),
            _with_denied(imports, (*deny_imports, *domains.both)),
        ),
        None if accepts is None else Permissions(PermissionsOptions(publish=accepts)),
    )


def told_again(user: PermissionsOptions | None, spoke: str, hub: str) -> PermissionsOptions:
    """What a spoke with JetStream is told of its `user` while the link lives, by both domains.

    nats-server takes it in the place of all that it denies, so it has to name what a spoke denies by itself.
    """
    user = user or PermissionsOptions()
    outgoing = (f"$JS.{spoke}.API.>",) if spoke and spoke != hub else ()
    return PermissionsOptions(
        publish=_with_denied(user.publish, (*_OF_CLIENTS, *outgoing)),
        subscribe=_with_denied(user.subscribe, _OF_CLIENTS),
    )


def domains_of(
    own: str,
    remote: str,
    *,
    account: str,
    peer: str,
    is_system: bool,
    has_system: bool,
    has_jetstream: bool,
    defaults: dict[str, str],
) -> Domains:
    """Which subjects stay apart on a link of `account`, by both sides' domains ("": none).

    `peer` names the other server; `defaults` is `default_js_domain`, by account.
    """
    notices: list[str] = []
    details: list[str] = []
    forced = is_system and "" in defaults.values()
    if forced:
        notices.append(f'Not extending remote JetStream domain "{remote}" due to presence of empty default domain')
    elif not is_system and defaults.get(account) == "":
        return Domains(details=(f'Skipping deny "$JS.API.>" for account "{account}" due to default domain',))
    apart = own != remote or (not has_jetstream and not own) or not has_system or forced
    both: tuple[str, ...] = ()
    if is_system and apart:
        notices += [f"System account connected from {peer}", "JetStream not extended, domains differ"]
        both = _OF_SERVERS
    elif is_system:
        extended = f'Extending JetStream domain "{remote}" as System Account connected from server {peer}'
        return Domains(extended=extended)
    else:
        both = _OF_CLIENTS
        if apart:
            notices.append(f'JetStream using domains: local "{own}", remote "{remote}"')
        else:
            details.append(f'Adding deny [{" ".join(both)}] for account "{account}"')
    outgoing: tuple[str, ...] = ()
    if own and has_jetstream and not is_system and apart:
        # against two servers of the same domain: what is for this one does not leave it
        outgoing = (f"$JS.{own}.API.>",)
        details.append(f'Adding deny "{outgoing[0]}" for outgoing messages to account "{account}"')
    return Domains(both, outgoing, tuple(notices), details=tuple(details))


def with_imports(rules: Rules, *, has_jetstream: bool) -> Rules:
    """Of a hub, in an account that is not the system account."""
    return replace(rules, imported=_IMPORTED if has_jetstream else _IMPORTED - {b"$JS.API.>"})


def _without_groups(rules: SubjectPermissions | None) -> tuple[SubjectPermissions | None, Permissions | None]:
    """Denies that name a queue say nothing of what is sent: they stand alone, for the groups behind the link."""
    denied = [] if rules is None else [entry for entry in rules.deny if len(entry.split()) > 1]
    if rules is None or not denied:
        return rules, None
    others = [entry for entry in rules.deny if entry not in denied]
    groups = Permissions(PermissionsOptions(subscribe=SubjectPermissions(deny=denied)))
    return SubjectPermissions(allow=rules.allow, deny=others), groups


def _with_denied(rules: SubjectPermissions | None, denied: Iterable[str]) -> SubjectPermissions | None:
    more = [entry for entry in denied if entry]
    if not more:
        return rules
    if rules is None:
        return SubjectPermissions(deny=more)
    return SubjectPermissions(allow=rules.allow, deny=[*rules.deny, *more])


def _both(publish: SubjectPermissions | None, subscribe: SubjectPermissions | None) -> Permissions | None:
    if publish is None and subscribe is None:
        return None
    return Permissions(PermissionsOptions(publish=publish, subscribe=subscribe))
