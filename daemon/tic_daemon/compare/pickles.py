"""A pickle, read by a machine that can build data and nothing else.

A pickle is a program. This machine knows the instructions that build None, booleans, numbers, texts, bytes, tuples,
lists, dicts and sets; a name of a class or function is looked up in a table of ours, never imported, and a name that is
not in the table ends the reading with that name in the error. There is no way to reach an attribute, a module or a call
outside the table. Work and memory grow with the length of the pickle alone: the memo is a dict, and lengths that
stand in the pickle are held against what is left of it.

Instructions: Python's `pickletools`, protocols 2 to 5, which are all that torch.save ever wrote into its zip files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tic_daemon.errors import CompareError

Names = Mapping[str, Callable[..., Any]]
"""What may be called: the name as the pickle says it ("torch._utils._rebuild_tensor_v2"), and what is done instead."""

_MAX_INT_BYTES: Final = 64
_FLOATS: Final = re.compile(rb"(?:G.{8}){8,256}", re.DOTALL)
_FLOAT: Final = np.dtype([("op", "u1"), ("value", ">f8")])
_GET, _PUT, _INT = rb"(h.|j.{4})", rb"(q.|r.{4})", rb"(K.|M..|J.{4})"
_REBUILD: Final = "torch._utils._rebuild_tensor_v2"
_TENSOR: Final = re.compile(
    rb"\(\(" + _GET + _GET + rb"X(.{4})(\d{1,9})" + _PUT + _GET + _INT + b"t" + _PUT + b"Q"  # the storage
    + _INT + _INT + rb"\x85" + _PUT + _INT + rb"\x85" + _PUT + rb"\x89"  # offset, shape, stride, requires_grad
    + _GET + rb"\)R" + _PUT + b"t" + _PUT + b"R" + _PUT,
    re.DOTALL,
)  # fmt: skip
_F64: Final = struct.Struct(">d")
_I32: Final = struct.Struct("<i")
_U32: Final = struct.Struct("<I")
_PUTS: Final = struct.Struct("<" + 7 * "xI")  # all of a tensor, with operands of four bytes
_LONG: Final = 3
_STOP: Final = ord(".")


class Dict(dict[Any, Any]):
    """What `collections.OrderedDict` becomes: a dict. The attributes that a module's state dict carries are dropped."""

    __slots__ = ()


class Name:
    """A class or function that the pickle names. It can only be looked up."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def loads(data: bytes | bytearray, names: Names, persistent: Callable[[Any], Any], where: str) -> Any:
    """The object that a pickle builds.

    Args:
        data: the pickle.
        names: what it may name. A value that is a `str` subclass or type stands for itself.
        persistent: called with each persistent id.
        where: the file, for errors.

    Raises:
        CompareError: it names something else, or is malformed.
    """
    try:
        return _Machine(data, names, persistent, where).run()
    except CompareError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, UnicodeDecodeError) as error:
        raise CompareError(f"{where} holds a malformed pickle: {error or type(error).__name__}") from error


class _Machine:
    """Stack, marks and memo of one pickle."""

    def __init__(self, data: bytes | bytearray, names: Names, persistent: Callable[[Any], Any], where: str) -> None:
        self.data, self.place, self.size = bytes(data), 0, len(data)
        self.names, self.persistent, self.where = names, persistent, where
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.integers: dict[bytes, int] = {}

    def run(self) -> Any:
        data, size, actions = self.data, self.size, _ACTIONS
        while (place := self.place) < size:
            code = data[place]
            self.place = place + 1
            action = actions.get(code)
            if action is not None:
                action(self)
            elif code == _STOP:
                return self.stack.pop()
            else:
                raise self.refused(f"instruction {code:#04x}, which is not data")
        raise ValueError("it has no end")

    def refused(self, what: str) -> CompareError:
        return CompareError(
            f"{self.where} asks for {what}: it is not read",
            "save tensors, numbers, texts, lists and dicts alone; nothing of the file was executed",
        )

    def recall(self, place: int) -> None:
        """What was remembered. Of a function that makes tensors the whole call may be taken at once."""
        value = self.memo[place]
        if type(value) is Name and value.text == _REBUILD and self.tensor():
            return
        self.stack.append(value)

    def tensor(self) -> bool:
        """The call that makes a tensor of one dimension, as Python's pickler writes it for each but the first: thirty
        instructions that stand there in this order, done as they would be one by one. Dumps are made of them.

        Returns whether it stands there.
        """
        found = _TENSOR.match(self.data, self.place)
        if found is None:
            return False
        (
            word, kind, size, key, key_put, device, length, saved_put, offset, extent, shape_put, step, stride_put,
            hooks, hooks_put, given_put, put,
        ) = found.groups()  # fmt: skip
        memo, gets = self.memo, _numbers((word, kind, device, hooks))
        puts = _numbers((key_put, saved_put, shape_put, stride_put, hooks_put, given_put, put))
        made = memo[gets[3]]
        if (
            len(key) != int.from_bytes(size, "little") or type(made) is not Name or self.names[made.text] is None
            or min(puts) <= max(gets)  # else it could matter when something is taken
        ):  # fmt: skip
            return False
        text, signed = key.decode(), self.signed
        saved = (memo[gets[0]], memo[gets[1]], text, memo[gets[2]], signed(length))
        storage = self.persistent(saved)
        shape, stride = (signed(extent),), (signed(step),)
        own = self.names[made.text]()
        given = (storage, signed(offset), shape, stride, False, own)
        built = self.names[_REBUILD](*given)
        for place, value in zip(puts, (text, saved, shape, stride, own, given, built), strict=False):
            memo[place] = value
        self.stack.append(built)
        self.place = found.end()
        return True

    def signed(self, instruction: bytes) -> int:
        """The number of K, M or J. There are few of them in a file."""
        found = self.integers.get(instruction)
        if found is None:
            found = int.from_bytes(instruction[1:], "little", signed=len(instruction) > _LONG)
            self.integers[instruction] = found
        return found

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        start = self.place
        self.place = end = start + length
        if length < 0 or end > self.size:
            raise ValueError("it ends within a value")
        return self.data[start:end]

    def line(self) -> str:
        """Text up to the next newline."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            raise ValueError("it ends within a name")
        text = self.take(end - self.place).decode()
        self.place += 1
        return text

    def byte(self) -> int:
        place = self.place
        self.place = place + 1
        return self.data[place]

    def word(self) -> int:
        """Four bytes, unsigned."""
        place = self.place
        self.place = place + 4
        found: int = _U32.unpack_from(self.data, place)[0]
        return found

    def unsigned(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def name(self, text: str) -> None:
        if text not in self.names:
            raise self.refused(text)
        self.stack.append(Name(text))

    def call(self) -> None:
        arguments = self.stack.pop()
        named = self.stack.pop()
        if type(named) is not Name or type(arguments) is not tuple:
            raise self.refused("a call of something that is no function")
        self.stack.append(self.names[named.text](*arguments))

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Dict):
            return
        built = getattr(type(target), "built", None)  # only classes of this package have it
        if built is None:
            raise self.refused(f"the state of a {type(target).__name__}")
        built(target, state)

    def long(self, length: int) -> None:
        if length > _MAX_INT_BYTES:
            raise ValueError(f"an integer of {length} bytes")
        self.stack.append(int.from_bytes(self.take(length), "little", signed=True))

    def float64(self) -> None:
        """One number, or a run of them: dumps hold lists of a million."""
        run = _FLOATS.match(self.data, self.place - 1)
        if run is None:
            self.stack.append(_F64.unpack(self.take(8))[0])
            return
        self.stack += np.frombuffer(run[0], _FLOAT)["value"].tolist()
        self.place = run.end()

    def items(self) -> None:
        items = self.pop_mark()
        _dict(self.stack[-1]).update(zip(items[::2], items[1::2], strict=True))

    def item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _dict(self.stack[-1])[key] = value

    def appended(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError(f"appends to a {type(target).__name__}")
        target += items

    def added(self) -> None:
        items = self.pop_mark()
        target = self.stack[-1]
        if type(target) is not set:
            raise ValueError(f"adds to a {type(target).__name__}")
        target.update(items)

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a name that is no text")
        self.name(f"{module}.{name}")

    def mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def tupled(self, length: int) -> None:
        stack = self.stack
        if len(stack) < length:
            raise ValueError("a tuple of more than there is")
        stack[-length:] = [tuple(stack[-length:])]

    def made(self, kind: Callable[[list[Any]], Any]) -> None:
        items = self.pop_mark()
        self.stack.append(kind(items))

    def remember(self) -> None:
        self.memo[self.byte()] = self.stack[-1]

    def remember_far(self) -> None:
        self.memo[self.word()] = self.stack[-1]

    def remember_next(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def text(self, length: int) -> None:
        self.stack.append(self.take(length).decode("utf-8", "surrogatepass"))


def _numbers(instructions: tuple[bytes, ...]) -> Sequence[int]:
    """The operands of instructions that take or put: each has one byte or four."""
    joined = b"".join(instructions)
    if len(joined) == 2 * len(instructions):
        return joined[1::2]
    if len(joined) == _PUTS.size == 5 * len(instructions):
        return _PUTS.unpack(joined)
    return [int.from_bytes(one[1:], "little") for one in instructions]


def _dict(target: Any) -> dict[Any, Any]:
    if not isinstance(target, dict):
        raise ValueError(f"sets an item of a {type(target).__name__}")
    return target


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


Action = Callable[[_Machine], Any]
_ACTIONS: Final[dict[int, Action]] = {
    ord("G"): _Machine.float64,
    ord("K"): lambda m: m.stack.append(m.byte()),
    ord("M"): lambda m: m.stack.append(m.unsigned(2)),
    ord("J"): lambda m: m.stack.append(_I32.unpack(m.take(4))[0]),
    ord("q"): _Machine.remember,
    ord("r"): _Machine.remember_far,
    0x94: _Machine.remember_next,
    ord("h"): lambda m: m.recall(m.byte()),
    ord("j"): lambda m: m.recall(m.word()),
    ord("X"): lambda m: m.text(m.word()),
    0x8C: lambda m: m.text(m.byte()),
    0x8D: lambda m: m.text(m.unsigned(8)),
    ord("("): _Machine.mark,
    ord(")"): lambda m: m.stack.append(()),
    ord("t"): lambda m: m.made(tuple),
    0x85: lambda m: m.tupled(1),
    0x86: lambda m: m.tupled(2),
    0x87: lambda m: m.tupled(3),
    ord("R"): _Machine.call,
    ord("c"): lambda m: m.name(f"{m.line()}.{m.line()}"),
    0x93: _Machine.stack_name,
    ord("Q"): lambda m: m.stack.append(m.persistent(m.stack.pop())),
    ord("b"): _Machine.build,
    ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True),
    0x89: lambda m: m.stack.append(False),
    ord("]"): lambda m: m.stack.append([]),
    ord("}"): lambda m: m.stack.append({}),
    0x8F: lambda m: m.stack.append(set()),
    ord("a"): lambda m: m.appended([m.stack.pop()]),
    ord("e"): lambda m: m.appended(m.pop_mark()),
    ord("s"): _Machine.item,
    ord("u"): _Machine.items,
    0x90: _Machine.added,
    0x91: lambda m: m.made(frozenset),
    ord("l"): lambda m: m.made(list),
    ord("d"): lambda m: m.made(_pairs),
    0x8A: lambda m: m.long(m.byte()),
    0x8B: lambda m: m.long(m.word()),
    ord("B"): lambda m: m.stack.append(m.take(m.word())),
    ord("C"): lambda m: m.stack.append(m.take(m.byte())),
    0x8E: lambda m: m.stack.append(m.take(m.unsigned(8))),
    ord("U"): lambda m: m.stack.append(m.take(m.byte()).decode("latin-1")),
    ord("T"): lambda m: m.stack.append(m.take(m.word()).decode("latin-1")),
    ord("0"): lambda m: m.stack.pop(),
    ord("1"): lambda m: m.pop_mark(),
    ord("2"): lambda m: m.stack.append(m.stack[-1]),
    0x80: lambda m: m.byte(),
    0x95: lambda m: m.unsigned(8),
}
"""What each instruction does, by its byte."""
