"""`authorization {}`: users, nkeys, and what they may publish and subscribe to."""

import copy

from jetbroker.config import keys, nkeys, values
from jetbroker.config.options import (
    AuthorizationOptions,
    PermissionsOptions,
    ResponsePermissions,
    SubjectPermissions,
    UserOptions,
)
from jetbroker.config.parser import Node, Place, Value
from jetbroker.config.report import Report
from jetbroker.config.subjects import is_valid_subject
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_HIGH_TIMEOUT_SECONDS = 60.0
_SUBJECT_FIELDS = "Unknown field name {} parsing subject permissions, only 'allow' or 'deny' are permitted"
_PERMISSION_FIELDS = "Unknown field {} parsing permissions"


class Users:
    """Reads users wherever they stand; a name or nkey may occur only once in all of a configuration."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.seen: set[str] = set()
        self.listed = False  # `authorization` has a list, if an empty one

    # --- authorization {} ---

    def authorization(self, node: Node, options: AuthorizationOptions) -> None:
        """Read the block into `options`."""
        tree = self.report.map(node)
        if tree is None:
            return
        options.defined = True

        def users(key: str, entry: Node) -> None:
            self.listed = True
            options.users = self.read_list(entry, node.place)

        def timeout(key: str, entry: Node) -> None:
            options.timeout = read_timeout(self.report, "authorization", entry)

        def permissions(key: str, entry: Node) -> None:
            options.default_permissions = self.permissions(entry)

        blocks = {"users": users, "timeout": timeout}
        blocks.update(dict.fromkeys(("default_permission", "default_permissions", "permissions"), permissions))
        self.report.fill(options, tree, keys.AUTHORIZATION, blocks, keys.AUTHORIZATION_UNSUPPORTED)
        apply_default(options.users, options.default_permissions)
        if options.token and (options.user or options.password):
            self.report.fail(node.place, "Cannot have a user/pass and token")

    # --- users [] ---

    def read_list(self, node: Node, duplicates: Place) -> list[UserOptions]:
        """The users of a list; one that came before, in whichever list, is told at `duplicates`."""
        if not isinstance(node.value, list):
            self.report.fail(node.place, f"Expected users field to be an array, got {values.shown(node.value)}")
            return []
        found = [self._user(entry, entry.value, duplicates) for entry in node.value]
        return [user for user in found if user is not None]

    def _user(self, node: Node, tree: Value, duplicates: Place) -> UserOptions | None:
        if not isinstance(tree, dict):
            self.report.fail(node.place, f"Expected user entry to be a map/struct, got {values.shown(tree)}")
            return None
        user = UserOptions()

        def permissions(key: str, entry: Node) -> None:
            user.permissions = self.permissions(entry)

        before = len(self.report.errors)
        blocks = dict.fromkeys(("permission", "permissions", "authorization"), permissions)
        self.report.fill(user, tree, keys.USER, blocks)
        wrong = self.report.errors[before:]
        last = list(tree.values())[-1].place if tree else node.place
        if not user.user and not user.nkey and not any("interface conversion" in line for line in wrong):
            self.report.fail(last, "User entry requires a user")
        elif wrong:
            return None
        elif user.nkey and not nkeys.is_public_key("user", user.nkey):
            self.report.fail(_place_of(tree, "nkey", last), "Not a valid public nkey for a user")
        elif user.nkey and (user.user or user.password):
            self.report.fail(last, "Nkey users do not take usernames or passwords")
        elif (user.nkey or user.user) in self.seen:
            what = f"nkey {quoted(user.nkey)}" if user.nkey else f"user {quoted(user.user)}"
            self.report.fail(duplicates, f"Duplicate {what} detected")
        else:
            self.seen.add(user.nkey or user.user)
            return user
        return None

    # --- permissions {} ---

    def permissions(self, node: Node) -> PermissionsOptions | None:
        """The permissions of a user, or the default ones; None when the block is none."""
        tree = self.report.map(node, "Expected permissions to be a map/struct, got {}")
        if tree is None:
            return None
        options = PermissionsOptions()

        def publish(key: str, entry: Node) -> None:
            options.publish = self._subjects(entry, queues=False)

        def subscribe(key: str, entry: Node) -> None:
            options.subscribe = self._subjects(entry, queues=True)

        def responses(key: str, entry: Node) -> None:
            options.responses = self._responses(entry)

        blocks = {
            **dict.fromkeys(("pub", "publish", "import"), publish),
            **dict.fromkeys(("sub", "subscribe", "export"), subscribe),
            **dict.fromkeys(("allow_responses", "publish_allow_responses"), responses),
        }
        self.report.fill(options, tree, {}, blocks, unknown=_PERMISSION_FIELDS)
        if options.responses is not None:
            # Who may answer may publish nothing else, unless the configuration says what.
            options.publish = options.publish or SubjectPermissions()
            if options.publish.allow is None:
                options.publish.allow = []
        return options

    def _subjects(self, node: Node, queues: bool) -> SubjectPermissions | None:
        """`publish` or `subscribe`: subjects alone are the allowed ones; an empty map says nothing."""
        if not isinstance(node.value, dict):
            return SubjectPermissions(allow=self.subject_list(node, queues))
        if not node.value:
            return None
        options = SubjectPermissions()

        def allow(key: str, entry: Node) -> None:
            options.allow = self.subject_list(entry, queues)

        def deny(key: str, entry: Node) -> None:
            options.deny = self.subject_list(entry, queues) or []

        self.report.fill(options, node.value, {}, {"allow": allow, "deny": deny}, unknown=_SUBJECT_FIELDS)
        return options

    def subject_list(self, node: Node, queues: bool) -> list[str] | None:
        """One subject or a list of them. None for an empty list, which nats-server takes for none."""
        entries = node.value if isinstance(node.value, list) else [node]
        subjects = []
        for entry in entries:
            if not isinstance(entry.value, str):
                if isinstance(node.value, list):
                    what = "Subject in permissions array cannot be cast to string"
                else:
                    got = values.type_name(entry.value)
                    what = f"Expected subject permissions to be a subject, or array of subjects, got {got}"
                self.report.fail(entry.place, what)
                return None
            if wrong := _wrong_subject(entry.value, queues):
                self.report.fail(node.place, wrong)
                return None
            subjects.append(entry.value)
        return subjects or None

    def _responses(self, node: Node) -> ResponsePermissions | None:
        if isinstance(node.value, bool):
            return ResponsePermissions() if node.value else None
        if not isinstance(node.value, dict):
            self.report.fail(node.place, "error parsing response permissions, expected a boolean or a map")
            return None
        options = ResponsePermissions()
        self.report.fill(options, node.value, keys.RESPONSES, {}, unknown=_PERMISSION_FIELDS)
        default = ResponsePermissions()
        options.max_msgs = options.max_msgs or default.max_msgs
        options.expires = options.expires or default.expires
        return options


def read_timeout(report: Report, block: str, node: Node) -> float:
    """Seconds for a login, of the block called so; 0.0 when they are wrong."""
    try:
        seconds = values.timeout(block, node.value)
    except ConfigError as error:
        report.fail(node.place, error)
        return 0.0
    if seconds > _HIGH_TIMEOUT_SECONDS:
        report.notice(
            node.place,
            f'invalid use of field "timeout": timeout of {values.shown(node.value)} '
            f"({seconds:f} seconds) is high, consider keeping it under 60 seconds. possibly caused by unquoted "
            "duration; use '1m' instead of 1m, for example",
        )
    return seconds


def apply_default(users: list[UserOptions], default: PermissionsOptions | None) -> None:
    """Give the users without permissions of their own the default ones."""
    for user in users:
        if user.permissions is None:
            user.permissions = copy.deepcopy(default)


def _wrong_subject(text: str, queues: bool) -> str:
    """What is wrong with an entry of a permission: a subject, in `subscribe` perhaps with a queue behind it."""
    if is_valid_subject(text):
        return "" if values.is_utf8(text) else f"subject {text!a} is not valid UTF-8"
    words = text.split()
    if not queues or len(words) != 2:
        return f"subject {quoted(text)} is not a valid subject"
    if not is_valid_subject(words[0]):
        return f"subject {quoted(words[0])} is not a valid subject"
    return "" if is_valid_subject(words[1]) else f"queue {quoted(words[1])} is not a valid queue"


def _place_of(tree: dict[str, Node], wanted: str, default: Place) -> Place:
    return next((node.place for name, node in tree.items() if name.lower() == wanted), default)
