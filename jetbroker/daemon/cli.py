"""The daemon's command line: nats-server's flags, words, texts and exit codes.

The broker itself is imported last, so that `--version`, `-t` and `--signal` answer at once.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetbroker import NATS_VERSION, __version__
from jetbroker.daemon import flags
from jetbroker.errors import ConfigError, JetbrokerError
from jetbroker.program import NATS_SERVER, program_name

if TYPE_CHECKING:
    from jetbroker.config.options import Options

USAGE = """
Usage: {program} [options]

Server Options:
    -a, --addr, --net <host>         Bind to host address (default: 0.0.0.0)
    -p, --port <port>                Use port for clients (default: 4222, -1: any free one)
    -n, --name
        --server_name <server_name>  Server name (default: auto)
    -P, --pid <file>                 File to store PID
    -m, --http_port <port>           Use port for http monitoring (-1: any free one)
    -ms,--https_port <port>          Use port for https monitoring
    -c, --config <file>              Configuration file
    -t                               Test configuration and exit
    -sl,--signal <signal>[=<pid>]    Send signal to {program} process (ldm, stop, quit, term, reopen, reload)
                                     <pid> can be either a PID (e.g. 1) or the path to a PID file
        --client_advertise <string>  Client URL to advertise to clients
        --ports_file_dir <dir>       Creates a ports file in the specified directory (<executable_name>_<pid>.ports).

Logging Options:
    -l, --log <file>                 File to redirect log output
    -T, --logtime                    Timestamp log entries (default: true)
        --logtime_utc                Timestamps in UTC
    -s, --syslog                     Log to syslog
    -r, --remote_syslog <addr>       Syslog server addr (udp://localhost:514)
    -D, --debug                      Enable debugging output
    -V, --trace                      Trace the raw protocol
    -VV                              Verbose trace (traces system account as well)
    -DV                              Debug and trace
    -DVV                             Debug and verbose trace (traces system account as well)
        --log_size_limit <limit>     Bytes after which a new log file is begun (default: never)
        --max_traced_msg_len <len>   Bytes of a message that a trace shows (default: all)

JetStream Options:
    -js, --jetstream                 Enable JetStream functionality
    -sd, --store_dir <dir>           Set the storage directory

Authorization Options:
        --user <user>                User required for connections
        --pass <password>            Password required for connections
        --auth <token>               Authorization token required for connections

TLS Options:
        --tls                        Enable TLS, do not verify clients (default: false)
        --tlscert <file>             Server certificate file
        --tlskey <file>              Private key for server certificate
        --tlsverify                  Enable TLS, verify client certificates
        --tlscacert <file>           Client certificate CA for verification

Commands:
    init [FILE]                      Write a commented configuration with a login (see {program} init --help)
    check config FILE                Say all that is wrong with a configuration file
    passwd                           Make a bcrypt hash of a password (see {program} passwd --help)
    replay                           Publish dead letters again (see {program} replay --help)
    store ls|info|cat|export|infer|verify|ship|restore
                                     Look into the files of a store, copy it elsewhere (see {program} store --help)
    top [URL]                        Show what a server does now (see {program} top --help)
    completion bash|zsh|fish         Print what a shell completes flags and commands by

Common Options:
    -h, --help                       Show this message
    -v, --version                    Show version
        --help_tls                   TLS help
"""


# nats-server's own words go before these where we stand in for it
_NEW_COMMANDS = ("check", "completion", "init", "top")
_COMMANDS = ("passwd", "replay", "store")
_MODULES = {"store": "stored.command", "top": "top.command"}
_BROKEN_PIPE = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (`argv` without the program's name; None: the process's own). Returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            return _main(words, program_name())
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # `--help | head`: whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _BROKEN_PIPE


def _main(words: Sequence[str], program: str) -> int:
    command = words[0] if words else ""
    if command in _COMMANDS or (command in _NEW_COMMANDS and program != NATS_SERVER):
        return _command(words, program)
    try:
        line = flags.parse(words)
    except flags.FlagError as error:
        return _wrong_flag(error, program)
    try:
        return _run(line, program)
    except JetbrokerError as error:
        print(f"{program}: {error}", file=sys.stderr)
        for hint in error.hints if program != NATS_SERVER else ():
            print(f"{program}: {hint}", file=sys.stderr)
        return 1


def _wrong_flag(error: flags.FlagError, program: str) -> int:
    """nats-server shows its usage then, and succeeds."""
    print(error, file=sys.stderr)
    if program == NATS_SERVER:
        print(USAGE.format(program=program))
        return 0
    from jetbroker.config.hints import did_you_mean

    known = [name for name, flag in flags.FLAGS.items() if flag.supported and len(name) > 1]
    if error.unknown and (hint := did_you_mean(error.unknown, known)):
        print(hint.replace('"', '"--', 1), file=sys.stderr)
    print(f"{program} --help shows all flags", file=sys.stderr)
    return 2


def _command(words: Sequence[str], program: str) -> int:
    from importlib import import_module

    module = import_module(f"jetbroker.daemon.{_MODULES.get(words[0], words[0])}")
    try:
        code: int = module.main(words[1:], program)
    except JetbrokerError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    return code


def _run(line: flags.CommandLine, program: str) -> int:
    word = line.words[0].lower() if line.words else ""
    for asked in ("version", "help", "help_tls"):
        if line.actions.get(asked):
            _show(asked, program)
            return 0
    if word in ("version", "help"):
        _show(word, program)
        return 0
    if word:
        raise JetbrokerError(f'unrecognized command: "{line.words[0]}"{_meant(word, program)}')
    if command := str(line.actions.get("signal", "")):
        from jetbroker.daemon import signals

        signals.send(command, program, _COMMANDS if program == NATS_SERVER else _COMMANDS + _NEW_COMMANDS)
        return 0
    if line.refused:
        raise ConfigError(f"flag --{line.refused[0]} not supported yet: {flags.REFUSED[line.refused[0]]}")
    if line.actions.get("test"):
        return _test(str(line.actions.get("config", "")), program)
    gc.disable()  # a start keeps nearly all it makes; the broker switches it on again when it is ready
    # Until the broker handles signals itself an interrupt ends the process at once, not with a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for asks_again in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(asks_again, signal.SIG_IGN)  # the files are about to be read and opened anyway
    options = load_options(line)
    _open_ports(options)
    from jetbroker.daemon import broker

    return broker.run(options)


def _meant(word: str, program: str) -> str:
    from jetbroker.config.hints import did_you_mean

    hint = did_you_mean(word, (*_COMMANDS, *_NEW_COMMANDS, "help", "version")) if program != NATS_SERVER else ""
    return f", {hint}" if hint else ""


def _open_ports(options: "Options") -> None:
    """Open the ports before the broker is loaded, where they will be served as soon as that is done.

    The clients' port last, as nats-server does: whoever finds that open takes the others for open too. None of them
    with streams on disk: to recover many takes longer than a client waits for INFO.
    """
    from jetbroker import addresses, limits

    if options.jetstream.enabled and os.path.exists(options.store_path):
        return
    monitor_host = (options.https_host if options.https_port else options.http_host) or options.host
    places = [
        (monitor_host, options.http_port or options.https_port),
        (options.websocket.host, options.websocket.port),
        (options.host, options.port),
    ]
    fixed = [(host, port) for host, port in places if 0 < port < 65_536]
    if places[-1] not in fixed or len({port for _, port in fixed}) < len(fixed):
        return  # nothing to come first for, or a fault to be told
    for host, port in fixed:
        addresses.open_early(host, port, limits.LISTEN_BACKLOG)


def _show(what: str, program: str) -> None:
    if what == "version":
        print(version_text(program))
    elif what == "help":
        print(USAGE.format(program=program))
    else:
        from jetbroker.config import tls

        print(tls.help_text())


def version_text(program: str) -> str:
    """The answer to `--version`: nats-server's own where we stand in for it."""
    if program == NATS_SERVER:
        return f"nats-server: v{NATS_VERSION}"
    return f"{program}: v{__version__} (nats-server v{NATS_VERSION} compatible)"


def load_options(line: flags.CommandLine) -> "Options":
    """The options of the configuration file, overridden by the flags, checked for a start.

    What is odd but stops no start goes to stderr. Raises :class:`~jetbroker.errors.ConfigError`.
    """
    from jetbroker.config import start

    path = str(line.actions.get("config", ""))
    loaded = start.load(path, line.settings)
    for notice in loaded.notices:
        print(notice, file=sys.stderr)
    return loaded.options


def check_file(path: str) -> "Options":
    """What `-t` looks at: the file, and what the accounts in it give each other.

    Raises :class:`~jetbroker.errors.ConfigError`, also for what a start would only tell.
    """
    from jetbroker.config import loader, report

    loaded = loader.load_file(path)
    options = loaded.options
    accounts = options.accounts.values()
    if options.mappings or any(account.mappings or account.exports or account.imports for account in accounts):
        from jetbroker.accounts import graph

        graph.check(options)
    if loaded.notices:
        raise report.ConfigErrors(loaded.notices)
    return options


def _test(path: str, program: str) -> int:
    """`-t`: say whether the configuration is valid."""
    if not path:
        raise ConfigError("must specify [-c, --config] option to check configuration file syntax")
    options = check_file(path)
    print(f"{program}: configuration file {path} is valid ({options.config_digest})", file=sys.stderr)
    return 0
