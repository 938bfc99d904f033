"""Sets of subjects that are searched for overlaps without comparing every pair."""

from collections.abc import Iterable, Iterator

_STAR = b"*"
_REST = b">"


class TooManySteps(Exception):
    """A search was given up: the subjects are too many, or too entangled, to compare in bounded time."""


class _Node:
    __slots__ = ("children", "owners")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.owners: set[str] = set()


class SubjectIndex:
    """Subjects, each with owners (streams, say), as a trie of tokens.

    All walks keep their own stack: a subject may have thousands of tokens. `steps_left` bounds the nodes that
    searches may still visit, None: no bound.
    """

    def __init__(self, step_limit: int | None = None) -> None:
        self._root = _Node()
        self.steps_left = step_limit

    def add(self, owner: str, subjects: Iterable[str]) -> None:
        """Remember subjects of an owner."""
        for subject in subjects:
            node = self._root
            for token in subject.encode().split(b"."):
                node = node.children.setdefault(token, _Node())
            node.owners.add(owner)

    def remove(self, owner: str, subjects: Iterable[str]) -> None:
        """Forget subjects of an owner."""
        for subject in subjects:
            path = [self._root]
            tokens = subject.encode().split(b".")
            for token in tokens:
                following = path[-1].children.get(token)
                if following is None:
                    break
                path.append(following)
            else:
                path[-1].owners.discard(owner)
                for parent, token, node in reversed(list(zip(path, tokens, path[1:], strict=False))):
                    if node.owners or node.children:
                        break
                    del parent.children[token]

    def overlapping(self, subject: bytes) -> set[str]:
        """The owners of a subject that some message could match together with `subject`. Raises TooManySteps."""
        return set().union(*(node.owners for node in self._search(subject.split(b"."))))

    def overlaps(self, subjects: Iterable[str], but: str = "") -> bool:
        """True when another owner than `but` has a subject that overlaps with one of these. Raises TooManySteps."""
        return any(
            owner != but
            for subject in subjects
            for node in self._search(subject.encode().split(b"."))
            for owner in node.owners
        )

    def count_containing(self, subject: bytes) -> int:
        """How many of the subjects match whatever `subject` matches, itself included. Raises TooManySteps."""
        return sum(1 for node in self._search(subject.split(b"."), containing=True) if node.owners)

    def _search(self, tokens: list[bytes], *, containing: bool = False) -> Iterator[_Node]:
        """Ends of subjects that overlap with this one; `containing`: only of those that match all that it matches."""
        stack = [(self._root, 0)]
        while stack:
            node, depth = stack.pop()
            self._step()
            if depth == len(tokens):
                yield node
                continue
            children = node.children
            if _REST in children:
                yield children[_REST]
            token = tokens[depth]
            if token == _REST:
                below = [] if containing else list(children.values())
                while below:
                    inner = below.pop()
                    self._step()
                    yield inner
                    below.extend(inner.children.values())
            elif token == _STAR and not containing:
                stack.extend((child, depth + 1) for name, child in children.items() if name != _REST)
            else:
                stack.extend((children[name], depth + 1) for name in {token, _STAR} if name in children)

    def _step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise TooManySteps
