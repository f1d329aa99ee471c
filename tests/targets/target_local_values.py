"""Stands still in a function with values of the standard library's types and says what they are.

    python target_local_values.py TRUTH

Writes to the file TRUTH, as JSON, {"pid": …, "frames": {function: {name: repr}}} and the arguments of each
function; prints its ready line and waits in that very call. Python 3.6 syntax.
"""

# ruff: noqa: F841 (the variables are there to be seen)

import collections
import enum
import json
import os
import sys
import time
import typing

try:
    import dataclasses
except ImportError:  # 3.6
    dataclasses = None

gate = os.pipe()  # nothing ever comes through it

Point = collections.namedtuple("Point", "x y")


class Typed(typing.NamedTuple):
    name: str
    size: int = 3


class Pixel(Point):  # a class made of a named tuple, with room for attributes
    pass


class Text(str):
    pass


class Marked(str):
    def __repr__(self):
        return "something only Python code knows"


class Whole(int):
    pass


class Real(float):
    pass


class Numbers(list):
    pass


class Pair(tuple):
    pass


class Table(dict):
    pass


class Group(set):
    pass


class Order(collections.OrderedDict):
    pass


class Count(collections.Counter):
    pass


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2**40
    BELOW = -(2**40)


class Mode(str, enum.Enum):
    TRAIN = "train"


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class Slots:
    __slots__ = ("first", "second", "never_set")

    def __init__(self):
        self.first = 1
        self.second = [2]


class MoreSlots(Slots):
    __slots__ = ("third",)

    def __init__(self):
        super().__init__()
        self.third = "three"


class Outer:
    class Inner:
        def __init__(self):
            self.value = 1.5
            self.child = Slots()
            self._hooks, self._table, self._later = collections.OrderedDict(), {}, None  # nothing to see
            self.nothing, self._flag = None, False

        def method(self):
            pass


class Failure(RuntimeError):
    pass


if dataclasses is not None:

    @dataclasses.dataclass
    class Config:
        lr: float = 0.1
        layers: typing.List[int] = dataclasses.field(default_factory=lambda: [64, 32])
        secret: str = dataclasses.field(default="hidden", repr=False)
        shared: typing.ClassVar[int] = 7

    @dataclasses.dataclass
    class Nested(Config):
        name: str = "nested"
        inner: typing.Any = None

    @dataclasses.dataclass(**({"slots": True} if sys.version_info >= (3, 10) else {}))
    class Slotted:
        a: int = 1
        b: typing.Any = (2, 3)


def publish(frame):
    truth, arguments = {}, {}
    while frame.f_code.co_name != "<module>":
        code = frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 4) + bool(code.co_flags & 8)
        arguments[code.co_name] = list(code.co_varnames[:count])
        truth[code.co_name] = {name: repr(value) for name, value in frame.f_locals.items()}
        frame = frame.f_back
    with open(sys.argv[1], "w") as file:
        json.dump({"pid": os.getpid(), "frames": truth, "arguments": arguments}, file)


def of_collections(first, second=(), *rest, only, **named):
    ordered, moved = (
        collections.OrderedDict([("b", 1), ("a", [2])]),
        collections.OrderedDict(zip("abc", range(3))),
    )
    moved.move_to_end("a")
    no_order, own_order = collections.OrderedDict(), Order(x=1)
    default, no_default = collections.defaultdict(int, {"a": 1}), collections.defaultdict(None, {2: 3})
    by_list = collections.defaultdict(list, {"k": [1, 2]})
    counter, no_counter = collections.Counter("abracadabra"), collections.Counter()
    own_counter, negative = Count("aab"), collections.Counter({"x": -2, "y": 5, "z": 0})
    queue, no_queue = collections.deque([1, "two"]), collections.deque()
    limited, turned = collections.deque(range(5), maxlen=3), collections.deque([1, 2, 3, 4])
    turned.rotate(2)
    long_queue = collections.deque(range(1000))
    for _ in range(70):
        long_queue.popleft()
    point, typed, pixel, nested_point = Point(1, "y"), Typed("n"), Pixel(3, 4), Point([1], Point(2, None))
    pixel.extra = "not shown by repr()"
    version = sys.version_info
    moment = time.gmtime(0)
    numbers, fractions, three, ends = range(10), range(1, 10, 3), slice(3), slice(1, None, -1)
    z, imaginary, minus, odd = 1 + 2j, 2j, complex(-0.0, -1), complex(float("inf"), 0.5)
    changeable, no_bytes = bytearray(b'a "b\x00\xff'), bytearray()
    del changeable[:1]
    return of_classes(first)


def of_classes(used_below):
    text, empty_text, wide_text, whole, minus = (
        Text("text"),
        Text(),
        Text("größe 変数"),
        Whole(12),
        Whole(-(2**70)),
    )
    real, numbers, pair = Real(0.5), Numbers([1, 2]), Pair((1, "b"))
    table, group, no_group = Table(a=1), Group([5]), Group()
    marked = Marked("text")
    red, green, low, high, train = Color.RED, Color.GREEN, Level.LOW, Level.HIGH, Mode.TRAIN
    below = Level.BELOW
    read, both, in_list = Right.READ, Right.READ | Right.WRITE, [Color.RED, {"level": Level.LOW}]
    klass, inner_class = Outer, Outer.Inner
    error, two, failure, no_text = (
        ValueError("wrong"),
        OSError(2, "no such file"),
        Failure("x", 1),
        KeyError(),
    )
    slots, more_slots, thing = Slots(), MoreSlots(), Outer.Inner()
    method = thing.method

    def inner():
        return deep(used_below)

    return inner()


def deep(levels):
    six = [1, [2, [3, [4, [5, [6]]]]]]
    eight = [1, [2, [3, [4, [5, [6, [7, [8]]]]]]]]
    keys = {"key": {"key": {"key": "value"}}}
    mixed = ("-" * 115, {"key": {"key": {"key": "value"}}})
    by_name = {"itself": None, "n": 1}
    by_name["itself"] = by_name
    with_list = ([],)
    with_list[0].append(with_list)
    long_texts = [["%d" % i * 150 for i in range(8)] for _ in range(8)]
    wide = [
        [[[[[i for i in range(8)] for _ in range(8)] for _ in range(8)] for _ in range(8)] for _ in range(8)]
    ]
    return of_dataclasses()


def of_dataclasses():
    if dataclasses is not None:
        config, nested = Config(), Nested(lr=1.5, inner=Config(layers=[]))
        slotted, in_dict = Slotted(), {"config": Config()}
    publish(sys._getframe()), os.write(1, b"ready\n"), os.read(gate[0], 1)


if __name__ == "__main__":
    of_collections("one", only=Color.RED, key=[1])
