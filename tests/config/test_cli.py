"""The command line: flags as Go reads them, and what the process says and returns."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.auth.passwords import fits_hash
from jetbroker.config.hints import did_you_mean
from jetbroker.config.loader import load_file
from jetbroker.daemon import cli, completion, flags, signals
from tests.support.process import jetbroker

CONFIGS = Path(__file__).resolve().parent.parent.parent / "configs"
ROOT = CONFIGS.parent
ENV = {**os.environ, "ORDERS_PASSWORD": "o", "REPORTS_PASSWORD": "r", "ADMIN_PASSWORD": "a"}


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**ENV, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "jetbroker", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def as_nats_server(*arguments: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; sys.argv[0] = 'nats-server'; from jetbroker.daemon.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-p 5 -a ::1", [("port", 5), ("host", "::1")]),
        ("--port=5 --addr=h --net n", [("port", 5), ("host", "h"), ("host", "n")]),
        ("-p -1", [("port", -1)]),
        ("-p 0x10 -p 010", [("port", 16), ("port", 8)]),
        ("-DV", [("debug", True), ("trace", True)]),
        ("-D -V=false", [("debug", True), ("trace", False)]),
        ("-js -sd=/x", [("jetstream.enabled", True), ("jetstream.store_dir", "/x")]),
        ("-T=f --logtime_utc", [("logtime", False), ("logtime_utc", True)]),
        ("-user a --pass b -auth=c", [("authorization.user", "a"), ("authorization.password", "b"),
                                      ("authorization.token", "c")]),
        ("-n a --name b --server_name c", [("server_name", "a"), ("server_name", "b"), ("server_name", "c")]),
        ("-l x --log y -P z --pid z", [("log_file", "x"), ("log_file", "y"), ("pid_file", "z"), ("pid_file", "z")]),
        ("-a= -p 1", [("host", ""), ("port", 1)]),
        ("-a -p", [("host", "-p")]),
        ("-VV", [("trace", True), ("trace_verbose", True)]),
        ("-DVV", [("debug", True), ("trace", True), ("trace_verbose", True)]),
        ("-DVV=false", [("debug", False), ("trace", False), ("trace_verbose", False)]),
        ("-ms 1 --https_port 2", [("https_port", 1), ("https_port", 2)]),
        ("-s --syslog=false", [("syslog", True), ("syslog", False)]),
        ("-r udp://a:1 --remote_syslog b", [("remote_syslog", "udp://a:1"), ("remote_syslog", "b")]),
        ("--log_size_limit 5 --max_traced_msg_len 6", [("log_size_limit", 5), ("max_traced_msg_len", 6)]),
        ("--client_advertise a:5", [("client_advertise", "a:5")]),
        ("--tls --tlscert c --tlskey k", [("tls", True), ("tls.cert_file", "c"), ("tls.key_file", "k")]),
        ("-tls=false -tlsverify --tlscacert a", [("tls", False), ("tls.verify", True), ("tls.ca_file", "a")]),
    ],
)  # fmt: skip
def test_flags(words: str, expected: list[tuple[str, flags.FlagValue]]) -> None:
    assert flags.parse(words.split()).settings == expected


def test_the_first_word_ends_the_flags() -> None:
    assert flags.parse(["-D", "word", "-V"]).words == ["word", "-V"]
    assert flags.parse(["-D", "--", "-V"]).words == ["-V"]
    assert flags.parse(["-"]).words == ["-"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-nope", "flag provided but not defined: -nope"),
        ("--nope=1", "flag provided but not defined: -nope"),
        ("-a", "flag needs an argument: -a"),
        ("-p x", 'invalid value "x" for flag -p: parse error'),
        ("-p=", 'invalid value "" for flag -p: parse error'),
        ("-p 99999999999999999999", 'invalid value "99999999999999999999" for flag -p: value out of range'),
        ("-D=x", 'invalid boolean value "x" for -D: parse error'),
        ("---p", "bad flag syntax: ---p"),
        ("-=5", "bad flag syntax: -=5"),
    ],
)
def test_flag_errors(words: str, message: str) -> None:
    with pytest.raises(flags.FlagError) as caught:
        flags.parse(words.split())
    assert str(caught.value) == message


@settings(deadline=None)
@given(st.lists(st.sampled_from([*(f"-{name}" for name in flags.FLAGS), "-p=1", "--", "5", "x"]) | st.text(max_size=8)))
def test_any_words_are_flags_or_an_error(words: list[str]) -> None:
    try:
        flags.parse(words)
    except flags.FlagError:
        return


def test_version_and_help() -> None:
    for word in ("-v", "--version", "version"):
        result = run(word)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("jetbroker: v")
        assert result.stdout.endswith("(nats-server v2.14.5 compatible)\n")
    assert cli.version_text("nats-server") == "nats-server: v2.14.5"
    for word in ("-h", "--help", "help"):
        assert "Usage: jetbroker [options]" in run(word).stdout


def test_help_of_tls_names_what_can_be_chosen() -> None:
    result = run("--help_tls")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n" in result.stdout
    assert "\n    CurveP256\n" in result.stdout


def test_a_broker_that_logs_to_syslog() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(30)
        flags = ["-a", "127.0.0.1", "-p", "-1", "-r", f"udp://127.0.0.1:{receiver.getsockname()[1]}"]
        command = [sys.executable, "-m", "jetbroker", *flags]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, env=ENV) as process:
            lines = [receiver.recv(1000)]
            while not lines[-1].endswith(b"Server is ready\n"):
                lines.append(receiver.recv(1000))
            process.terminate()
            _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said == b""
    assert all(line.startswith(b"<5>") and b" jetbroker[" in line for line in lines)


def test_a_mapping_to_nothing_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text('mappings { a: "" }')
    with jetbroker("-c", str(path)) as server, socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.settimeout(10)
        client.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPUB a 1\r\nx\r\nPING\r\n')
        said = b""
        while not said.endswith(b"PONG\r\n"):
            said += client.recv(10_000)
    assert said.endswith(b"MSG a 1 1\r\nx\r\nPONG\r\n")


def test_a_wrong_flag_is_told_with_what_may_have_been_meant() -> None:
    result = run("--store_dr", "x")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "flag provided but not defined: -store_dr",
        'did you mean "--store_dir"?',
        "jetbroker --help shows all flags",
    ]
    assert run("pasword").stderr == 'jetbroker: unrecognized command: "pasword", did you mean "passwd"?\n'


def test_under_the_name_of_nats_server_only_its_own_words_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("prot: 1\n")
    told = as_nats_server("-t", "-c", str(tmp_path / "bad")).stderr
    assert told.count("\n") == 2 and told.endswith('unknown field "prot"\n\n')


def test_under_the_name_of_nats_server_a_wrong_flag_shows_the_usage_and_succeeds() -> None:
    result = as_nats_server("-nope")
    assert (result.returncode, result.stderr) == (0, "flag provided but not defined: -nope\n")
    assert "Usage: nats-server" in result.stdout
    result = as_nats_server("init")
    assert (result.returncode, result.stderr) == (1, 'nats-server: unrecognized command: "init"\n')


def test_a_reader_that_goes_sees_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "jetbroker", "--help"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_configuration_is_written_once_and_lets_its_login_in(tmp_path: Path) -> None:
    result = run("init", "first.conf", cwd=tmp_path)
    found = re.search(r'user "admin", password (\w+)', result.stdout)
    assert result.returncode == 0 and found is not None
    path = tmp_path / "first.conf"
    assert path.stat().st_mode & 0o777 == 0o600
    assert found[1] not in path.read_text()
    assert run("check", "config", "first.conf", cwd=tmp_path).stdout == "first.conf is valid\n"
    options = load_file(str(path)).options
    assert fits_hash(options.authorization.password, found[1])
    again = run("init", "first.conf", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "jetbroker: first.conf is there already: name another file\n"


def test_a_check_tells_all_faults_and_what_may_have_been_meant(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("max_paylod: 1\nzzz: 1\njetstream { domian: a }\n")
    result = run("check", "config", "bad", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        'jetbroker: bad:1:0: unknown field "max_paylod"',
        'jetbroker: bad:2:1: unknown field "zzz"',
        'jetbroker: bad:3:13: unknown field "domian"',
        'jetbroker: bad:1:0: did you mean "max_payload"?',
        'jetbroker: bad:3:13: did you mean "domain"?',
    ]
    for words in (["-t", "-c", "bad"], ["-c", "bad"]):
        told = run(*words, cwd=tmp_path)
        assert told.returncode == 1
        assert told.stderr.splitlines()[-2:] == result.stderr.splitlines()[-2:]
    (tmp_path / "unset").write_text("port: $NOWHERE_SET\n")
    result = run("check", "config", "unset", cwd=tmp_path)
    assert result.returncode == 1 and "NOWHERE_SET" in result.stderr and "unset" in result.stderr
    for text in (
        "no_auth_user: nobody",
        "port: 70000",
        "http: 8222\nhttps: 8443",
        "websocket { port: 70000, no_tls: true }",
    ):
        (tmp_path / "start").write_text(text + "\n")  # what only a start checks
        assert run("check", "config", "start", cwd=tmp_path).returncode == 1
    assert run("check", "config", "nofile", cwd=tmp_path).stderr == (
        "jetbroker: open nofile: no such file or directory\n"
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_of_the_shell(shell: str) -> None:
    script = run("completion", shell).stdout
    assert "store_dir" in script and "passwd" in script and "cluster" not in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    done = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_flags_and_commands() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    script = run("completion", "bash").stdout
    asked = "COMP_WORDS=(jetbroker {}); COMP_CWORD=$(({} - 1)); _jetbroker; echo ${{COMPREPLY[*]}}\n"
    for words in ("--store_", "pas", "store ver", "completion z", "check c", "-c pyproject.t", "store ls pyproject.t"):
        script += asked.format(words, len(words.split()) + 1)
    done = subprocess.run([bash, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == [
        "--store_dir", "passwd", "verify", "zsh", "config", "pyproject.toml", "pyproject.toml",
    ]  # fmt: skip


def test_fish_completes_flags_and_commands() -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish here")
    script = run("completion", "fish").stdout
    for words in ("--store_", "pas", "store ver", "completion z", "check c"):
        script += f"complete -C 'jetbroker {words}'\n"
    done = subprocess.run([fish, "--no-config", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["--store_dir", "passwd", "verify", "zsh", "config"]


def test_completed_words_are_those_that_the_commands_know() -> None:
    for command, words in completion.SECOND.items():
        refused = run(command, "nope").stderr
        assert sorted(re.findall(r"\w+", refused.partition("choose from")[2])) == sorted(words)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], 'jetbroker: unrecognized command: "nope"\n'),
        (["-t"], "jetbroker: must specify [-c, --config] option to check configuration file syntax\n"),
        (["-c", "nofile"], "jetbroker: open nofile: no such file or directory\n"),
        (["-t", "-c", "nofile"], "jetbroker: open nofile: no such file or directory\n"),
        (
            ["--cluster", "nats://localhost:1"],
            "jetbroker: flag --cluster not supported yet: this broker is no member of a cluster\n",
        ),
        (["--profile", "5"], "jetbroker: flag --profile not supported yet: there is no profiling port\n"),
        (["--tls"], "jetbroker: TLS Server certificate must be present and valid\n"),
        (["--tlsverify", "--tlscert", "x"], "jetbroker: TLS Server private key must be present and valid\n"),
        (
            ["--tlscert", "x", "--tlskey", "y"],
            "jetbroker: error parsing X509 certificate/key pair: open x: no such file or directory\n",
        ),
        (
            ["-c", "configs/accounts.conf", "--user", "a", "--pass", "b"],
            "jetbroker: configs/accounts.conf: Can not have a single user/pass and accounts\n",
        ),
        (
            ["-c", "configs/accounts.conf", "--auth", "b"],
            "jetbroker: configs/accounts.conf: Can not have a token and accounts\n",
        ),
        (["-n", "a b"], "jetbroker: server name cannot contain spaces\n"),
        (["-sl", "reload=4194305"], 'jetbroker: \nsignal "reload" 4194305: no such process\n'),
        (["-sl", "nope=5"], 'jetbroker: unknown signal "nope"\n'),
        (["-sl", "stop=/nofile"], "jetbroker: invalid pid: /nofile\n"),
    ],
)
def test_failures(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", message)


def test_check_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("port: 4222\n")
    (tmp_path / "bad").write_text("\n\nfoo: 1\n")
    (tmp_path / "odd").write_text("ping_interval: 5\n")
    (tmp_path / "empty").write_text("")
    digest = "797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
    result = run("-t", "-c", "good", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stderr == f"jetbroker: configuration file good is valid (sha256:{digest})\n"
    result = run("-t", "-c", "bad", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, 'jetbroker: bad:3:1: unknown field "foo"\n\n')
    result = run("-t", "-c", "odd", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith('jetbroker: odd:1:0: invalid use of field "ping_interval"')
    result = run("-t", "-c", "empty", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "jetbroker: empty: config has no values or is empty\n\n")


@pytest.mark.parametrize("name", ["standalone.conf", "accounts.conf", "interval-sync.conf"])
def test_configs_of_the_repository_are_valid(name: str) -> None:
    result = run("-t", "-c", str(CONFIGS / name))
    assert (result.returncode, "is valid (sha256:" in result.stderr) == (0, True), result.stderr


class Processes:
    """Processes that are not there, so that no test ever signals a real one."""

    def __init__(self, *pids: int) -> None:
        self.pids = list(pids)
        self.sent: list[tuple[int, int]] = []

    def find(self, program: str, commands: Collection[str]) -> list[int]:
        return self.pids

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.pids:
            raise ProcessLookupError(3, "No such process")
        self.sent.append((pid, number))

    def send(self, command: str) -> None:
        signals.send(command, "jetbroker", (), self.find, self.kill)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("stop", signal.SIGKILL),
        ("quit", signal.SIGINT),
        ("term", signal.SIGTERM),
        ("reopen", signal.SIGUSR1),
        ("reload", signal.SIGHUP),
        ("ldm", signal.SIGUSR2),
    ],
)
def test_signals(name: str, number: int, tmp_path: Path) -> None:
    processes = Processes(4711)
    processes.send(name)
    processes.send(f"{name}=4711")
    (tmp_path / "pid").write_text("4711")
    processes.send(f"{name}={tmp_path}/pid")
    processes.send(f"{name}=47*")
    processes.send(f"{name}=48*")
    assert processes.sent == [(4711, number)] * 4
    (tmp_path / "pid").write_text("")
    with pytest.raises(signals.SignalError, match="invalid pid"):
        processes.send(f"{name}={tmp_path}/pid")


@pytest.mark.parametrize(
    ("pids", "command", "message"),
    [
        ([], "stop", "no jetbroker processes running"),
        ([1, 2], "stop", "multiple jetbroker processes running:\n1\n2"),
        ([1], "nope", 'unknown signal "nope"'),
        ([1], "stop=x", "invalid pid: x"),
        ([1], "stop=0", "invalid pid: 0"),
        ([1], "stop=-1", "invalid pid: -1"),
        ([1], "stop=x*", "invalid pid: x"),
        ([1], "nope=x", "invalid pid: x"),
        ([], "nope=1*", "no jetbroker processes running"),
        ([], "stop=*", "no jetbroker processes running"),
        ([1], "nope=1*", 'unknown signal "nope"'),
        ([1], "stop=2", '\nsignal "stop" 2: no such process'),
    ],
)
def test_signals_that_fail(pids: list[int], command: str, message: str) -> None:
    with pytest.raises(signals.SignalError) as caught:
        Processes(*pids).send(command)
    assert str(caught.value) == message


def test_running_processes_are_found_by_name() -> None:
    script = "import sys; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        name = os.path.basename(sys.executable)
        assert process.pid in signals.running_processes(name)
        assert process.pid not in signals.running_processes("some-other-program")
        assert process.pid not in signals.running_processes(name, ("-c",))
    finally:
        process.communicate("")


def test_letters_in_another_order_are_the_likeliest_slip() -> None:
    assert did_you_mean("prot", ["root", "port"]) == 'did you mean "port"?'
    assert did_you_mean("zzz", ["root", "port"]) == ""
