"""From a value of the tree to a Python value of one type. Messages are nats-server's, without the place.

Each reader takes the key (lower case, for the message) and the value, and raises
:class:`~jetbroker.errors.ConfigError` when it is not of its type.
"""

from datetime import datetime

from jetbroker.bounds import INT64_MAX
from jetbroker.config import nkeys
from jetbroker.config.durations import bounded, format_duration, parse_duration
from jetbroker.config.parser import Place, Value
from jetbroker.config.subjects import is_literal, is_valid_subject
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted
from jetbroker.forms.sizes import parse_bytes
from jetbroker.forms.strconv import out_of_range, parse_int
from jetbroker.forms.versions import components
from jetbroker.limits import SHIP_URL_CHARACTERS

MAP = "map[string]interface {}"
LIST = "[]interface {}"
CONNECTION_TYPES = frozenset("STANDARD WEBSOCKET LEAFNODE LEAFNODE_WS MQTT MQTT_WS IN_PROCESS".split())
_INT32_MAX = 2**31 - 1
_SUBJECT_TOKENS_MAX = 255
_YEAR_SECONDS = 365 * 24 * 3600
_MIN_LAME_DUCK_SECONDS = 30.0
_LOWEST_LEAF_VERSION = (2, 8, 0)
_STORAGE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# errors name these so, whichever of its names a key has in the file
_STORAGE_NAMES = {
    **dict.fromkeys(("max_memory_store", "max_mem_store", "max_mem"), "max_mem_store"),
    **dict.fromkeys(("max_file_store", "max_file"), "max_file_store"),
}


class DurationWanted(ConfigError):
    """An integer stands where a duration belongs: taken as seconds by a start, refused by a check."""


class ElementError(ConfigError):
    """What is wrong is an element of a list or map, with a place of its own."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.place = place


def type_name(value: Value) -> str:
    """The type as nats-server's messages call it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, datetime):
        return "time.Time"
    if isinstance(value, list):
        return LIST
    if isinstance(value, dict):
        return MAP
    return "string"


def wrong_type(value: Value, wanted: str) -> ConfigError:
    """The error for a value of another type than `wanted`, in Go's words."""
    return ConfigError(f"interface conversion: interface {{}} is {type_name(value)}, not {wanted}")


def string(key: str, value: Value) -> str:
    """A string; one that is not valid UTF-8 is refused."""
    if not isinstance(value, str):
        raise wrong_type(value, "string")
    if not is_utf8(value):
        raise ConfigError(f"{key} is not valid UTF-8")
    return value


def is_utf8(text: str) -> bool:
    """False for text that came from bytes which are no UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def boolean(key: str, value: Value) -> bool:
    """A boolean, written without quotes."""
    if not isinstance(value, bool):
        raise wrong_type(value, "bool")
    return value


def integer(key: str, value: Value) -> int:
    """An integer, with or without a suffix."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "int64")
    return value


def small_integer(key: str, value: Value) -> int:
    """An integer of at most 2^31-1."""
    number = integer(key, value)
    if number > _INT32_MAX:
        raise ConfigError(f"{key} value is too big")
    return number


def connections(key: str, value: Value) -> int:
    """How many connections there may be: 0, like -1, lets nobody in."""
    return integer(key, value) or -1


def subject_tokens(key: str, value: Value) -> int:
    """How many tokens a subject may have: 1 to 255."""
    number = integer(key, value)
    if number > _SUBJECT_TOKENS_MAX:
        raise ConfigError(f"{key} value is too big")
    if number <= 0:
        raise ConfigError(f"{key} value can not be negative")
    return number


def storage_size(key: str, value: Value) -> int:
    """Bytes: an integer, or a string that ends in K, M, G or T (powers of 1024); the empty one is unlimited."""
    name = _STORAGE_NAMES.get(key, key)
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{name} must be int64 or string")
        return value
    if not value:
        return -1
    digits, unit = string(key, value)[:-1], value[-1]
    try:
        number = parse_int(digits)
    except ValueError as error:
        raise ConfigError(f"{name} {error}") from None
    if unit not in _STORAGE_UNITS:
        raise ConfigError(f"{name} sizes defined as strings must end in K, M, G, T")
    size = number * _STORAGE_UNITS[unit]
    if abs(size) > INT64_MAX:
        raise ConfigError(f"{name} {out_of_range('ParseInt', digits)}")
    return size


def limit(key: str, value: Value) -> int:
    """A limit of an account; negative: none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f'Expected a parseable size for "{key}", got {shown(value)}')
    return value


def duration(key: str, value: Value) -> float:
    """Seconds: a duration such as `"2m"`; raises :class:`DurationWanted` for an integer."""
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ConfigError as error:
            raise ConfigError(f"error parsing {key}: {error}") from None
    raise DurationWanted(f'invalid use of field "{key}": {key} should be converted to a duration')


def ship_interval(key: str, value: Value) -> float:
    """Seconds between two passes: a second to a year."""
    return _within_a_year(key, value, 1)


def kept_duration(key: str, value: Value) -> float:
    """Seconds, a year at most; 0 for not at all."""
    return _within_a_year(key, value, 0)


def _within_a_year(key: str, value: Value, least: int) -> float:
    """An integer counts as seconds (DurationWanted), as long as it is in the range."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    seconds = value if is_number else duration(key, value)
    if not isinstance(seconds, int | float) or not least <= seconds <= _YEAR_SECONDS:
        raise ConfigError(f"{key} must be from {least}s to 8760h")
    return duration(key, value)


def byte_rate(key: str, value: Value) -> int:
    """Bytes a second; -1: no bound."""
    if isinstance(value, str):
        try:
            value = parse_bytes(value)
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from None
    number = integer(key, value)
    if number < 1 and number != -1:
        raise ConfigError(f"{key} must be 1 or more bytes a second, or -1 for no bound")
    return number


def ship_url(key: str, value: Value) -> str:
    """A folder, or a URL. Logins do not stand in it: what is in it comes into logs and monitoring."""
    url = string(key, value)
    if not url.isprintable() or len(url) > SHIP_URL_CHARACTERS:
        raise ConfigError(f"{key} must be at most {SHIP_URL_CHARACTERS} printable characters")
    scheme, has_scheme, rest = url.partition(":/")
    if not has_scheme and not url.startswith("/"):
        raise ConfigError(f"{key} must be a folder that begins with / or a URL such as s3://bucket/folder")
    if scheme and "@" in rest.lstrip("/").partition("/")[0]:
        raise ConfigError(
            f"{key} must not hold a login: give that to the library by its environment variables or files"
        )
    return url


def reconnect(key: str, value: Value) -> float:
    """Seconds between two tries; errors call the key so, whichever of its names it has in the file."""
    return duration("reconnect", value)


def write_timeout(key: str, value: Value) -> str:
    """All three mean the same here: closed is who takes nothing at all within `write_deadline`."""
    policy = string(key, value)
    if policy not in ("default", "close", "retry"):
        raise ConfigError("write_timeout must be 'default', 'close' or 'retry'")
    return "" if policy == "default" else policy


def leaf_version(key: str, value: Value) -> str:
    """The lowest version of servers that may link: there is none below 2.8.0."""
    version = string(key, value)
    found = components(version)
    if found is None:
        raise ConfigError("invalid leafnode's minimum version: invalid semver")
    if found < _LOWEST_LEAF_VERSION:
        raise ConfigError("the minimum version should be at least 2.8.0")
    return version


def leaf_nkey(key: str, value: Value) -> str:
    """The public nkey of whom links log in as."""
    text = string(key, value)
    if not nkeys.is_public_key("user", text):
        raise ConfigError("Not a valid public nkey for leafnode authorization")
    return text


def server_name(key: str, value: Value) -> str:
    """A name without blanks."""
    name = string(key, value)
    if " " in name:
        raise ConfigError("server name cannot contain spaces")
    return name


def system_account(key: str, value: Value) -> str:
    """The name of an account."""
    if not isinstance(value, str):
        raise ConfigError("system account name must be a string")
    return string(key, value)


def lame_duck_duration(key: str, value: Value) -> float:
    """Seconds, at least half a minute: clients need the time to go elsewhere."""
    seconds = duration(key, string(key, value))
    if seconds < _MIN_LAME_DUCK_SECONDS:
        raise ConfigError(f"invalid {key} of {format_duration(seconds)}, minimum is 30 seconds")
    return seconds


def lame_duck_grace_period(key: str, value: Value) -> float:
    """Seconds, not negative."""
    seconds = duration(key, string(key, value))
    if seconds < 0:
        raise ConfigError(f"invalid {key}, needs to be positive")
    return seconds


def strict_flag(key: str, value: Value) -> bool:
    """The boolean of `jetstream.strict`."""
    if not isinstance(value, bool):
        raise ConfigError(f"Expected 'true' or 'false' for bool value, got '{_as_text(value)}'")
    return value


def _as_text(value: Value) -> str:
    """A value that is printed as if it were text: with its type when it is none."""
    return shown(value) if isinstance(value, (str, list, dict, datetime)) else f"%!s({type_name(value)}={shown(value)})"


def account_flag(key: str, value: Value) -> bool:
    """A boolean among the limits of an account."""
    if not isinstance(value, bool):
        raise ConfigError(f'Expected a parseable bool for "{key}", got {shown(value)}')
    return value


def switch(value: Value) -> bool:
    """`jetstream: enabled`, in words or as a boolean."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ConfigError(f"Expected map, bool or string to define JetStream, got {type_name(value)}")
    word = value.lower()
    if word not in ("enable", "enabled", "disable", "disabled"):
        raise ConfigError(f"Expected 'enabled' or 'disabled' for string value, got '{shown(value)}'")
    return word.startswith("enable")


def sync_interval(key: str, value: Value) -> float | None:
    """Seconds between two fdatasyncs in the background; None for `always`: before each ack."""
    if isinstance(value, str) and value.lower() == "always":
        return None
    seconds = duration(key, value)
    if seconds < 0:
        raise ConfigError(f"invalid {key}, needs to be positive")
    return seconds


def timeout(block: str, value: Value) -> float:
    """Seconds, of a block called `block`: a number or a duration."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(f"error parsing {block} config, 'timeout' wrong type")
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ConfigError as error:
            raise ConfigError(f"error parsing {block} config, 'timeout' {error}") from None
    return bounded(float(value))


def shown(value: Value) -> str:
    """A value inside of a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "a list" if value else "[]"
    if isinstance(value, dict):
        return "a map" if value else "map[]"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} +0000 UTC"
    return str(value)


def string_list(key: str, value: Value) -> list[str]:
    """A list of strings; one string counts as a list of one."""
    if isinstance(value, str):
        return [string(key, value)]
    if not isinstance(value, list):
        raise ConfigError(f"error parsing {key}: unsupported type {type_name(value)}")
    for node in value:
        if not isinstance(node.value, str):
            raise ElementError(node.place, f"error parsing {key}: unsupported type in array {type_name(node.value)}")
    return [string(key, node.value) for node in value]


def tags(key: str, value: Value) -> list[str]:
    """`server_tags`: a string or a list of them; lower case, without blanks around, each once."""
    if isinstance(value, list) and not all(isinstance(node.value, str) for node in value):
        raise ConfigError("error parsing tags: unsupported type *conf.token where string is expected")
    words = [word.strip().lower() for word in string_list("tags", value)]
    return list(dict.fromkeys(word for word in words if word))


def host_names(key: str, value: Value) -> list[str]:
    """Names of machines: a string or a list of them, without ports; lower case, each once."""
    words = [word.strip().lower().rstrip(".") for word in string_list(key, value)]
    for word in words:
        if not word or not word.isascii() or not all(char.isalnum() or char in "-._" for char in word):
            raise ConfigError(f"{key}: {word!r} is no name of a host: give names without ports")
    return list(dict.fromkeys(words))


def metadata(key: str, value: Value) -> dict[str, str]:
    """`server_metadata`: strings by name."""
    if not isinstance(value, dict):
        raise ConfigError(f"error parsing metadata: unsupported type {type_name(value)}")
    for node in value.values():
        if not isinstance(node.value, str):
            raise ElementError(node.place, str(wrong_type(node.value, "string")))
    return {name: string(name, node.value) for name, node in value.items()}


def connection_types(key: str, value: Value) -> frozenset[str]:
    """The kinds of connections a user may make, in upper case."""
    names = [name.upper() for name in string_list("allowed connection types", value)]
    unknown = [f'"{name}"' for name in names if name not in CONNECTION_TYPES]
    if unknown:
        raise ConfigError(f"invalid connection types [{' '.join(unknown)}]")
    return frozenset(names)


def account_nkey(key: str, value: Value) -> str:
    """The public nkey of an account."""
    if not isinstance(value, str) or not nkeys.is_public_key("account", value):
        text = f'"{value}"' if isinstance(value, str) else shown(value)
        raise ConfigError(f"Not a valid public nkey for an account: {text}")
    return value


def response_expiry(key: str, value: Value) -> float:
    """How long a reply may be published to, in seconds; negative: for ever."""
    if not isinstance(value, str):
        raise ConfigError("error parsing expires, not a duration string")
    try:
        return parse_duration(value)
    except ConfigError as error:
        raise ConfigError(f"error parsing expires: {error}") from None


def trace_destination(key: str, value: Value) -> bytes:
    """A subject that can be published to."""
    if not isinstance(value, str):
        raise ConfigError(f"Field {quoted(key)} should be a string, got {type_name(value)}")
    subject = string(key, value)
    if not (is_valid_subject(subject) and is_literal(subject)):
        raise ConfigError(f"Trace destination {quoted(subject)} is not valid")
    return subject.encode()


def trace_sampling(key: str, value: Value) -> int:
    """Percent: a number, also with a percent sign."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        wanted = f"Trace destination sampling field {quoted(key)} should be an integer or a percentage"
        raise ConfigError(f"{wanted}, got {type_name(value)}")
    try:
        number = value if isinstance(value, int) else parse_int(value.removesuffix("%"))
    except ValueError:
        raise ConfigError(f"Invalid trace destination sampling value {quoted(str(value))}") from None
    if not 0 < number <= 100:
        raise ConfigError(f"Ttrace destination sampling value {number} is invalid, needs to be [1..100]")
    return number


def handshake_timeout(key: str, value: Value) -> float:
    """Seconds: a whole number of them or a duration."""
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"error parsing handshake timeout: unsupported type {type_name(value)}")
    return bounded(float(value))


def number_of_seconds(key: str, value: Value) -> float:
    """Seconds as a number; anything else is one second, as in nats-server."""
    return 1.0 if isinstance(value, bool) or not isinstance(value, (int, float)) else bounded(float(value))


def tls_file(key: str, value: Value) -> str:
    """A path in `tls {}`."""
    if not isinstance(value, str):
        raise ConfigError(f"error parsing tls config, expected '{key}' to be filename")
    return string(key, value)


def tls_flag(key: str, value: Value) -> bool:
    """A boolean in `tls {}`."""
    if not isinstance(value, bool):
        raise ConfigError(f"error parsing tls config, expected '{key}' to be a boolean")
    return value


def tls_timeout(key: str, value: Value) -> float:
    """Seconds for a handshake: a number or a duration."""
    return timeout("tls", value)


def tls_rate_limit(key: str, value: Value) -> int:
    """Handshakes per second."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("error parsing tls config, 'connection_rate_limit' wrong type")
    return value


def tls_version(key: str, value: Value) -> str:
    """The lowest version that is spoken: "1.2" or "1.3"."""
    if not isinstance(value, str):
        raise ConfigError(f"error parsing tls config: 'min_version' wrong type: {shown(value)}")
    if value in ("1.0", "1.1"):
        raise ConfigError(f"error parsing tls config: unsupported TLS version: TLS {value}")
    if value not in ("1.2", "1.3"):
        raise ConfigError(f"error parsing tls config: unknown version: {value}")
    return value


def address(value: Value) -> tuple[str | None, int]:
    """Host and port of `listen`: `host:port`, `[::1]:port`, `:port`, or just the port (the host is None then)."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ConfigError(f"expected port or host:port, got {type_name(value)}")
    if isinstance(value, int):
        return None, value
    text = string("listen", value)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "[" in host or "]" in host:
        colon = ""
    if not colon:
        raise ConfigError(f'could not parse address string "{text}"')
    try:
        return host, int(port)
    except ValueError:
        raise ConfigError(f'could not parse port "{port}"') from None
