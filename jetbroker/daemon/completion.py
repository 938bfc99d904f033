"""`jetbroker completion`: what a shell needs to complete flags and commands, made of the tables they are read by.

$ source <(jetbroker completion bash)
$ jetbroker completion fish > ~/.config/fish/completions/jetbroker.fish
"""

import argparse
from collections.abc import Callable, Sequence

from jetbroker.daemon.flags import FLAGS

COMMANDS = ("check", "completion", "init", "passwd", "replay", "store", "top")
"""The words that are no flags of a start."""
SECOND = {
    "check": ("config",),
    "completion": ("bash", "fish", "zsh"),
    "store": ("cat", "export", "infer", "info", "ls", "restore", "ship", "verify"),
}
"""What comes behind one of them."""
_FILES = frozenset("c config P pid l log tlscert tlskey tlscacert sd store_dir ports_file_dir".split())


def main(argv: Sequence[str], program: str) -> int:
    """Run it with the words behind `completion`. Returns the exit code."""
    print(_SHELLS[_parser(program).parse_args(argv).shell](program), end="")
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program} completion", description="Prints what a shell completes flags and commands by."
    )
    parser.add_argument("shell", choices=sorted(_SHELLS), help="the shell")
    return parser


def _flags() -> list[str]:
    return [_dashed(name) for name, flag in sorted(FLAGS.items()) if flag.supported]


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) <= 2 or name == "DVV" else f"--{name}"


def _bash(program: str) -> str:
    files = "|".join(_dashed(name) for name in sorted(_FILES))
    second = [
        f'        "2 {first}") COMPREPLY=( $(compgen -W "{" ".join(words)}" -- "$word") );;'
        for first, words in SECOND.items()
    ]
    return f"""\
_{_word(program)}() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}"
    case "${{COMP_WORDS[COMP_CWORD-1]}}" in
        {files}) COMPREPLY=( $(compgen -f -- "$word") ); return;;
    esac
    case "$word" in
        -*) COMPREPLY=( $(compgen -W "{" ".join(_flags())}" -- "$word") ); return;;
    esac
    case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
        "1 "*) COMPREPLY=( $(compgen -W "{" ".join(COMMANDS)}" -- "$word") );;
{chr(10).join(second)}
        *) COMPREPLY=( $(compgen -f -- "$word") );;
    esac
}}
complete -o filenames -F _{_word(program)} {program}
"""


def _zsh(program: str) -> str:
    second = [
        f'    elif [[ "$CURRENT $words[2]" == "3 {first}" ]]; then compadd -- {" ".join(words)}'
        for first, words in SECOND.items()
    ]
    return f"""\
#compdef {program}
_{_word(program)}() {{
    if [[ "$PREFIX" == -* ]]; then compadd -- {" ".join(_flags())}
    elif (( CURRENT == 2 )); then compadd -- {" ".join(COMMANDS)}
{chr(10).join(second)}
    else _files; fi
}}
if [ "$funcstack[1]" = "_{_word(program)}" ]; then _{_word(program)} "$@"; else compdef _{_word(program)} {program}; fi
"""


def _fish(program: str) -> str:
    lines = [f"complete -c {program} -n __fish_use_subcommand -f -a '{' '.join(COMMANDS)}'"]
    for first, words in SECOND.items():
        line = f"complete -c {program} -n '__fish_seen_subcommand_from {first}; and __fish_is_nth_token 2'"
        lines.append(f"{line} -f -a '{' '.join(words)}'")
    for flag in _flags():
        kind = "l" if flag.startswith("--") else "s" if len(flag) == 2 else "o"
        lines.append(f"complete -c {program} -{kind} {flag.lstrip('-')}{' -r' if flag.lstrip('-') in _FILES else ''}")
    return "\n".join(lines) + "\n"


def _word(program: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in program)


_SHELLS: dict[str, Callable[[str], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
