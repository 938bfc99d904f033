"""What a Dockerfile says, and its steps run in a bare root instead of a container."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$", re.DOTALL)
STEP_TIMEOUT_S = 1800


@dataclass
class Stage:
    """One `FROM`: what it begins with, and its instructions."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """The text of the last such instruction."""
        return [text for word, text in self.steps if word == instruction][-1]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile. What a global ARG defines is left as it is written."""
    found: list[Stage] = []
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", "").splitlines():
        match = INSTRUCTION.match(line)
        if match is None:
            continue
        word, rest = match[1], match[2].strip()
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name))
        elif found:
            found[-1].steps.append((word, rest))
    return found


def copies(stage: Stage) -> list[tuple[str, list[str], str]]:
    """Each COPY: the stage it takes from ("": the context), what, and where to."""
    found = []
    for word, text in stage.steps:
        if word == "COPY":
            words = shlex.split(text)
            origin = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
            found.append((origin, words[:-1], words[-1]))
    return found


class BareRoots:
    """Runs stages as root, each in a folder that begins as a copy of `base`."""

    def __init__(self, all_stages: list[Stage], base: Path, context: Path, folder: Path) -> None:
        self._stages = all_stages
        self._base = base
        self._context = context
        self._folder = folder
        self._roots: dict[str, Path] = {}
        self._folders: dict[str, str] = {}  # where the commands of a stage ran in the end

    def built(self, name: str) -> Path:
        """The root that a stage leaves behind; "" is the last stage."""
        if name not in self._roots:
            stage = self._stages[-1] if not name else next(found for found in self._stages if found.name == name)
            known = {found.name for found in self._stages}
            begun = self.built(stage.base) if stage.base in known else self._base
            root = self._roots[name] = self._folder / (name or "image")
            subprocess.run(["cp", "-a", "--reflink=auto", begun, root], check=True)
            self._run(stage, root)
        return self._roots[name]

    def _run(self, stage: Stage, root: Path) -> None:
        folder = self._folders.get(stage.base, "/")
        for word, text in stage.steps:
            if word == "WORKDIR":
                folder = text
                (root / folder[1:]).mkdir(parents=True, exist_ok=True)
            elif word == "RUN":
                inside(root, ["sh", "-ec", text], folder)
            elif word == "COPY":
                words = shlex.split(text)
                origin = self._context
                if words[0].startswith("--from="):
                    origin = self.built(words.pop(0).removeprefix("--from="))
                self._copy(origin, words, root, folder)
        self._folders[stage.name] = folder

    def _copy(self, origin: Path, words: list[str], root: Path, folder: str) -> None:
        """Copy as COPY does, but for what was compiled in the checkout: .dockerignore leaves it out."""
        *sources, target = words
        place = root / str(Path(folder) / target)[1:]
        ignored = shutil.ignore_patterns("*.so", "__pycache__") if origin == self._context else None
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                into = place / found.name if target.endswith("/") else place
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, into)


def inside(root: Path, command: list[str], folder: str, *before: str) -> str:
    """What a command prints in a root with processes of its own; it must succeed."""
    words = ["unshare", "--mount", "--pid", "--fork", f"--root={root}", f"--wd={folder}", "--mount-proc", *before]
    done = subprocess.run([*words, *command], capture_output=True, text=True, timeout=STEP_TIMEOUT_S)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def exec_form(text: str) -> list[str]:
    """The words of `["a", "b"]`."""
    words: list[str] = json.loads(text)
    return words
