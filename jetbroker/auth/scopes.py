"""Scopes: a signing key whose users may do what the key's template says. `{{...}}` in it stands for facts of the user.

`name()`, `subject()`, `account-name()`, `account-subject()`, `tag(k)`, `account-tag(k)`. A tag may have several
values: the entry then stands for all of them. Beside an entry with `{{...}}` none in the same list may name a queue.
"""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import replace

from jetbroker import limits
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.config.subjects import is_valid_subject
from jetbroker.config.tokens.claims import AccountClaims, UserClaims, UserLimits

_PLACEHOLDER = re.compile(r"\{\{[^}]+(\}\})?")  # one without an end is passed as a whole, and does not count
_TAGS = ("tag(", "account-tag(")
_EVERYTHING = ">"


class TemplateError(Exception):
    """The template cannot be filled in for this user: he is not let in."""


def filled_in(scope: UserLimits, user: UserClaims, account: AccountClaims) -> UserLimits:
    """The scope's limits for one user. Raises TemplateError."""
    if scope.permissions is None:
        return scope
    source = scope.permissions
    permissions = PermissionsOptions(
        publish=_subjects(source.publish, user, account),
        subscribe=_subjects(source.subscribe, user, account),
        responses=source.responses,
    )
    return replace(scope, permissions=permissions)


def _subjects(source: SubjectPermissions | None, user: UserClaims, account: AccountClaims) -> SubjectPermissions | None:
    if source is None:
        return None
    deny = _filled(source.deny, user, account, required=True)
    if not source.allow:
        return SubjectPermissions(source.allow, deny)
    allow = _filled(source.allow, user, account, required=False)
    if max(len(allow), len(deny)) > limits.TOKEN_SUBJECTS:
        raise TemplateError("too many subjects")
    if not allow:  # nothing is left of what was allowed: not everything is, but nothing
        return SubjectPermissions(None, [*deny, _EVERYTHING])
    return SubjectPermissions(allow, deny)


def _filled(entries: list[str], user: UserClaims, account: AccountClaims, *, required: bool) -> list[str]:
    """The subjects that a list stands for, and the queues behind them if none of it has to be filled in."""
    if any(map(_places, entries)):
        return [text for entry in entries for text in _expanded(entry, user, account, required=required)]
    good = [entry for entry in entries if entry.count(" ") < 2 and all(map(is_valid_subject, entry.split(" ")))]
    if required and good != entries:
        raise TemplateError("not a subject")
    return good


def _places(entry: str) -> list[str]:
    return list(dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(entry) if found[1]))


def _expanded(entry: str, user: UserClaims, account: AccountClaims, *, required: bool) -> Iterable[str]:
    """The subjects that one entry stands for; one that cannot be is left out, or refused where it is `required`."""
    places = _places(entry)
    if len(places) > limits.TOKEN_PLACEHOLDERS:
        raise TemplateError("too many placeholders")
    values = [_values(place[2:-2].strip(), user, account) for place in places]
    count = math.prod(map(len, values))
    if count > limits.TOKEN_SUBJECTS or count * len(entry) > limits.TOKEN_BYTES:
        raise TemplateError("too many subjects")
    if required and not count:
        raise TemplateError("a tag is not there")
    subjects = []
    for combination in itertools.product(*values):
        text = entry
        for place, value in zip(places, combination, strict=True):
            text = text.replace(place, value)
        if is_valid_subject(text):
            subjects.append(text)
        elif required:
            raise TemplateError("generated invalid subject")
    return subjects


def _values(operation: str, user: UserClaims, account: AccountClaims) -> list[str]:
    """What a placeholder stands for; several values of a tag, none when it is not there."""
    plain = {
        "name()": user.name,
        "subject()": user.subject,
        "account-name()": account.name,
        "account-subject()": user.issuer_account,
    }.get(operation.lower())
    if plain is not None:
        return [plain]
    kind = next((kind for kind in _TAGS if operation.lower().startswith(kind)), "")
    if not kind or not operation.endswith(")"):
        raise TemplateError("no such operation")
    # in capitals it is the operation, too, but what it asks for begins with its name then: nobody has that
    prefix = f"{operation.removeprefix(kind).removesuffix(')').lower()}:"
    tags = user.tags if kind == _TAGS[0] else account.tags
    return [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)]
