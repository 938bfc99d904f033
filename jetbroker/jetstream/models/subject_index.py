"""Sets of subjects that are searched for overlaps without comparing every pair."""

from collections.abc import Generator, Iterable

from jetbroker.turns import Steps
from jetbroker.wire.subjects import collide, subset

PIECE = 64  # steps of which no clock is asked in between: some microseconds each
DEPTH = 32  # tokens of a subject that have a node each; all behind them share one, as a subject may have 400,000
_STAR = b"*"
_REST = b">"


class TooManySteps(Exception):
    """A search was given up: the subjects are too many, or too entangled, to compare in bounded time."""


class _Node:
    """Most nodes have no children, and the same owners as many others: one object each for the collector to look at."""

    __slots__ = ("children", "owners")

    def __init__(self) -> None:
        self.children = _CHILDLESS
        self.owners = _NOBODY

    def child(self, token: bytes) -> "_Node":
        """The child for a token, made when there is none."""
        node = self.children.get(token)
        if node is None:
            if self.children is _CHILDLESS:
                self.children = {}
            node = self.children[token] = _Node()
        return node


_CHILDLESS: dict[bytes, _Node] = {}  # never changed
_NOBODY: frozenset[str] = frozenset()


def _path(subject: bytes) -> list[bytes]:
    return subject.split(b".", DEPTH)


class SubjectIndex:
    """Subjects, each with owners (streams, say), as a trie of tokens.

    All walks keep their own stack. `steps_left` bounds the nodes that
    searches may still visit, None: no bound. What takes long yields between its pieces (see turns.py).
    """

    def __init__(self, step_limit: int | None = None) -> None:
        self._root = _Node()
        self.steps_left = step_limit
        self._visited = 0

    def bounded(self, step_limit: int) -> "SubjectIndex":
        """The same subjects, with a bound of its own on searches."""
        index = SubjectIndex(step_limit)
        index._root = self._root
        return index

    def add(self, owner: str, subjects: Iterable[str]) -> Steps[None]:
        """Remember subjects of an owner."""
        alone = frozenset((owner,))
        for number, subject in enumerate(subjects):
            if number % PIECE == PIECE - 1:
                yield
            node = self._root
            for token in _path(subject.encode()):
                node = node.child(token)
            node.owners = node.owners | alone if node.owners else alone

    def remove(self, owner: str, subjects: Iterable[str]) -> Steps[None]:
        """Forget subjects of an owner."""
        for number, subject in enumerate(subjects):
            if number % PIECE == PIECE - 1:
                yield
            path = [self._root]
            tokens = _path(subject.encode())
            for token in tokens:
                following = path[-1].children.get(token)
                if following is None:
                    break
                path.append(following)
            else:
                path[-1].owners -= {owner}
                for parent, token, node in reversed(list(zip(path, tokens, path[1:], strict=False))):
                    if node.owners or node.children:
                        break
                    del parent.children[token]

    def clear(self) -> Steps[None]:
        """Forget everything: all at once that would take long."""
        below = [self._root]
        while below:
            children = below.pop().children
            while children:
                node = children.popitem()[1]
                if node.children:
                    below.append(node)
                self._visited += 1
                if self._visited % PIECE == 0:
                    yield

    def overlapping(self, subject: bytes) -> Steps[set[str]]:
        """The owners of a subject that some message could match together with `subject`. Raises TooManySteps."""
        owners: set[str] = set()
        for node in self._search(_path(subject)):
            if node is None:
                yield
            else:
                owners |= node.owners
        return owners

    def overlaps(self, subjects: Iterable[str], but: str = "") -> Steps[bool]:
        """True when another owner than `but` has a subject that overlaps with one of these. Raises TooManySteps."""
        for subject in subjects:
            for node in self._search(_path(subject.encode())):
                if node is None:
                    yield
                elif any(owner != but for owner in node.owners):
                    return True
        return False

    def count_containing(self, subject: bytes) -> Steps[int]:
        """How many of the subjects match whatever `subject` matches, itself included. Raises TooManySteps."""
        count = 0
        for node in self._search(_path(subject), containing=True):
            if node is None:
                yield
            else:
                count += bool(node.owners)
        return count

    def _search(self, tokens: list[bytes], *, containing: bool = False) -> Generator[_Node | None]:
        """Ends of subjects that overlap with this one; `containing`: only of those that match all that it matches.

        None between two pieces.
        """
        stack = [(self._root, 0)]
        while stack:
            node, depth = stack.pop()
            if self._step():
                yield None
            if depth == len(tokens):
                yield node
                continue
            children = node.children
            if depth == DEPTH:
                yield from self._search_tails(children, tokens[depth], containing=containing)
                continue
            if _REST in children:
                yield children[_REST]
            token = tokens[depth]
            if token == _REST:
                below = [] if containing else list(children.values())
                while below:
                    inner = below.pop()
                    if self._step():
                        yield None
                    yield inner
                    below.extend(inner.children.values())
            elif token == _STAR and not containing:
                stack.extend((child, depth + 1) for name, child in children.items() if name != _REST)
            else:
                stack.extend((children[name], depth + 1) for name in {token, _STAR} if name in children)

    def _search_tails(self, tails: dict[bytes, _Node], asked: bytes, *, containing: bool) -> Generator[_Node | None]:
        """As above, where one node stands for all tokens that are left."""
        for tail, node in list(tails.items()):
            self._step()
            yield None  # a comparison may be a long one
            if subset(asked, tail) if containing else collide(asked, tail):
                yield node

    def _step(self) -> bool:
        """Count a visited node; is a piece of the search done?"""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise TooManySteps
        self._visited += 1
        return self._visited % PIECE == 0


def any_collides(asked: bytes, subjects: Iterable[str]) -> Steps[bool]:
    """Does some message match both `asked` and one of the subjects?"""
    for number, subject in enumerate(subjects):
        if number % PIECE == PIECE - 1:
            yield
        if collide(asked, subject.encode()):
            return True
    return False


def any_two_overlap(subjects: Iterable[str], step_limit: int) -> Steps[bool]:
    """Does some message match two of the subjects? Raises TooManySteps."""
    index = SubjectIndex(step_limit)
    for subject in subjects:
        if (yield from index.overlapping(subject.encode())):
            return True
        yield from index.add(subject, [subject])
    yield from index.clear()
    return False


def any_contains(subjects: list[str], step_limit: int) -> Steps[bool]:
    """Does one of the subjects match all that another one matches? Raises TooManySteps."""
    if len(set(subjects)) != len(subjects):
        return True
    index = SubjectIndex(step_limit)
    yield from index.add("", subjects)
    for subject in subjects:
        if (yield from index.count_containing(subject.encode())) > 1:
            return True
    yield from index.clear()
    return False
