"""Which stream has which subjects: finds overlaps without comparing every pair."""

from jetbroker.jetstream.config import StreamConfig

_STAR = b"*"
_REST = b">"


class _Node:
    __slots__ = ("children", "owners")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.owners: set[str] = set()


class SubjectIndex:
    """The subjects of an account's streams as a trie of tokens.

    All walks keep their own stack: a subject may have thousands of tokens.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, config: StreamConfig) -> None:
        """Remember the subjects of a stream."""
        for subject in config.subjects:
            node = self._root
            for token in subject.encode().split(b"."):
                node = node.children.setdefault(token, _Node())
            node.owners.add(config.name)

    def remove(self, config: StreamConfig) -> None:
        """Forget the subjects of a stream."""
        for subject in config.subjects:
            path = [self._root]
            tokens = subject.encode().split(b".")
            for token in tokens:
                following = path[-1].children.get(token)
                if following is None:
                    break
                path.append(following)
            else:
                path[-1].owners.discard(config.name)
                for parent, token, node in reversed(list(zip(path, tokens, path[1:], strict=False))):
                    if node.owners or node.children:
                        break
                    del parent.children[token]

    def overlapping(self, subject: bytes, but: str = "") -> set[str]:
        """The streams, `but` one, with a subject that some message could match together with `subject`."""
        tokens = subject.split(b".")
        found: set[str] = set()
        stack = [(self._root, 0)]
        while stack:
            node, depth = stack.pop()
            if depth == len(tokens):
                found |= node.owners
                continue
            rest = node.children.get(_REST)
            if rest is not None:
                found |= rest.owners
            token = tokens[depth]
            if token == _REST:
                found |= _owners_below(node)
            elif token == _STAR:
                stack.extend((child, depth + 1) for name, child in node.children.items() if name != _REST)
            else:
                stack.extend((node.children[name], depth + 1) for name in {token, _STAR} if name in node.children)
        found.discard(but)
        return found

    def overlaps(self, config: StreamConfig) -> bool:
        """True when another stream than the one of this name has one of these subjects."""
        return any(self.overlapping(subject.encode(), but=config.name) for subject in config.subjects)


def _owners_below(node: _Node) -> set[str]:
    found: set[str] = set()
    stack = list(node.children.values())
    while stack:
        inner = stack.pop()
        found |= inner.owners
        stack.extend(inner.children.values())
    return found
