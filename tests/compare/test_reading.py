"""Every form that is read, and every hostile or unlucky file: refused with a reason, and nothing of it runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import ptfile
from tests.compare.ptfile import T, f32, mask, name, text, tuple_of, write
from tic_daemon.compare import pickles
from tic_daemon.compare.align import align
from tic_daemon.compare.figures import Figures, measure
from tic_daemon.compare.opened import Opened
from tic_daemon.compare.pickles import Dict, loads
from tic_daemon.compare.reading import Reading
from tic_daemon.compare.sides import Side
from tic_daemon.compare.torchfile import TorchFile, plain
from tic_daemon.errors import CompareError


def figures(a: Path, b: Path | None = None) -> Figures | None:
    with Reading(a) as one, Reading(b or a) as other:
        left, right = one.sides[0], other.sides[-1]
        return measure(left, right, align(left, right))


def numbers(side: Side, request: str) -> list[float]:
    tensor = side.sequences[request].logprobs
    return tensor.element.values(tensor.bits()).tolist()


def flags(side: Side, request: str) -> list[bool]:
    return [bool(one) for one in side.sequences[request].mask.bits()]


# canonical input


def test_ids_are_texts_and_shapes_are_kept(tmp_path: Path) -> None:
    value = {
        7: (f32(-1, -2), mask(1, 0)),
        "a": [T(np.array([[-3.0, -4.0]]), "float64"), T(np.array([[True, True]]), "bool")],
    }
    with Reading(write(tmp_path / "a.pt", value)) as found:
        (side,) = found.sides
        assert list(side.sequences) == ["7", "a"] and side.provenance == "native" and side.reader == "torch"
        assert numbers(side, "7") == [-1, -2] and flags(side, "7") == [True, False]
        assert side.sequences["a"].logprobs.shape == (1, 2) and side.sequences["a"].logprobs.element.name == "float64"


def test_slices_and_transposed_tensors_are_read_as_torch_means_them(tmp_path: Path) -> None:
    """A column of a 3x2 matrix, a slice that begins in the middle, and a mask that is one byte repeated."""
    base = np.arange(6, dtype=np.float32)
    value = {
        "column": (T(base, "float32", stride=(2,), offset=1, shape=(3,)), mask(1, 1, 1)),
        "slice": (
            T(base, "float32", stride=(1,), offset=2, shape=(3,)),
            T(np.array([True]), "bool", stride=(0,), shape=(3,)),
        ),
        "transposed": (T(base, "float32", stride=(1, 3), shape=(3, 2)), T(np.ones((3, 2), bool), "bool")),
    }
    with Reading(write(tmp_path / "a.pt", value)) as found:
        (side,) = found.sides
        assert numbers(side, "column") == [1, 3, 5] and numbers(side, "slice") == [2, 3, 4]
        assert flags(side, "slice") == [True] * 3
        assert numbers(side, "transposed") == [0, 3, 1, 4, 2, 5]


def test_two_ids_that_read_alike_are_no_dict(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt", {1: (f32(-1), mask(1)), "1": (f32(-2), mask(1))})
    with Reading(path) as found:
        assert "stands there twice" in found.sides[0].refused[0]


def test_numpy_arrays_in_a_pickle_are_data(tmp_path: Path) -> None:
    value = {"r": (np.array([-1.5, -2.5], np.float32), np.array([True, False]))}
    raw = pickle.dumps(value, protocol=2)
    with Reading(write(tmp_path / "a.pt", None, raw_pickle=raw)) as found:
        assert numbers(found.sides[0], "r") == [-1.5, -2.5] and flags(found.sides[0], "r") == [True, False]
    mixed = {"f": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)), "x": np.float64(-0.5), "n": np.int8(-3)}
    for protocol in (2, 3, 4):
        path = write(tmp_path / f"b{protocol}.pt", None, raw_pickle=pickle.dumps(mixed, protocol=protocol))
        with Opened(path) as file:
            root = TorchFile(file).root
            assert plain(root["f"]).flat.view("<i4").tolist() == [0, 1, 2, 3, 4, 5]
            assert (root["x"], root["n"]) == (-0.5, -3)


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(allow_nan=False), st.text(), st.binary()
        ),
        lambda inner: st.one_of(
            st.lists(inner), st.tuples(inner, inner), st.dictionaries(st.text(), inner), st.frozensets(st.integers())
        ),
        max_leaves=12,
    ),
    st.sampled_from([2, 3, 4, 5]),
)
def test_the_machine_builds_what_pickle_builds(value: Any, protocol: int) -> None:
    from tic_daemon.compare.pickles import loads

    names = {"_codecs.encode": lambda text, _kind: text.encode("latin-1"), "builtins.frozenset": frozenset, "__builtin__.frozenset": frozenset,
             "__builtin__.bytes": bytes, "builtins.bytes": bytes}  # fmt: skip
    assert loads(pickle.dumps(value, protocol=protocol), names, lambda _id: None, "x") == value


def test_long_lists_of_floats(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=3000).tolist()
    from tic_daemon.compare.pickles import loads

    assert loads(pickle.dumps([values, 1, values[:5], "x"], protocol=2), {}, lambda _id: None, "x") == [
        values,
        1,
        values[:5],
        "x",
    ]


# hostile files


class Runs:
    """What a hostile pickle does: it makes a file when it is loaded."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


def test_a_pickle_that_would_run_code_is_refused_with_its_name(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for protocol in (2, 4, 5):
        raw = pickle.dumps({"a": Runs(trap)}, protocol=protocol)
        path = write(tmp_path / f"evil{protocol}.pt", None, raw_pickle=raw)
        with pytest.raises(CompareError, match=r"asks for (posix|nt)\.mkdir") as caught:
            Reading(path)
        assert "nothing of the file was executed" in str(caught.value)
        bare = tmp_path / f"bare{protocol}.pkl"
        bare.write_bytes(raw)
        with pytest.raises(CompareError, match="bare pickle"):
            Reading(bare)
    assert not trap.exists()


EVIL = {
    "an attribute by a dotted name": b"\x8c\x05torch\x8c\x14_utils.__builtins__.x\x93",
    "eval": name("builtins", "eval") + tuple_of(text("1+1")) + b"R",
    "a call of a tensor": name("collections", "OrderedDict") + b")R)R",
    "the state of a function": name("collections", "OrderedDict") + b"}b",
    "the state of a list": b"]}b",
    "a new object": name("collections", "OrderedDict") + b")\x81",
    "an extension": b"\x82\x01",
    "an instance": b"(" + text("x") + b"i" + b"os\nsystem\n",
    "a persistent id as text": b"Pevil\n",
}


@pytest.mark.parametrize("what", sorted(EVIL))
def test_instructions_that_are_more_than_data(what: str, tmp_path: Path) -> None:
    path = write(tmp_path / "evil.pt", None, raw_pickle=b"\x80\x02" + EVIL[what] + b".")
    with pytest.raises(CompareError, match=r"asks for|malformed"):
        Reading(path)


def test_a_type_named_instead_of_called_is_no_value(tmp_path: Path) -> None:
    raw = b"\x80\x02}(" + text("r") + name("torch", "FloatStorage") + b"u."
    with pytest.raises(CompareError, match="no pair"):
        Reading(write(tmp_path / "a.pt", None, raw_pickle=raw))


def test_a_memo_far_away_takes_no_memory(tmp_path: Path) -> None:
    raw = b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b"."
    with Reading(write(tmp_path / "a.pt", None, raw_pickle=raw)) as found:
        assert not found.sides[0].sequences


@pytest.mark.parametrize(
    "body",
    [b"", b"\x80\x02", b"\x80\x02.", b"\x80\x02X\xff\xff\xff\x7fab.", b"\x80\x02\x8a\xff.", b"\x80\x02(((t.", b"\x80\x02h\x05.",
     b"\x80\x02]Na.", b"\x80\x02}(NNNu.", b"\x80\x02\x86.", b"\x80\x02}(]Nu."],
)  # fmt: skip
def test_malformed_pickles(body: bytes, tmp_path: Path) -> None:
    with pytest.raises(CompareError):
        Reading(write(tmp_path / "a.pt", None, raw_pickle=body))


def _rebuilt(length: int, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    stored = (
        tuple_of(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), ptfile.number(length)) + b"Q"
    )
    dims, steps = (b"(" + b"".join(map(ptfile.number, one)) + b"t" for one in (shape, stride))
    call = name("torch._utils", "_rebuild_tensor_v2") + tuple_of(
        stored, ptfile.number(offset), dims, steps, b"\x89", b"N"
    )
    return b"\x80\x02}(" + text("r") + call + b"R2\x86u."  # the same tensor twice, as a pair


@pytest.mark.parametrize(
    ("length", "offset", "shape", "stride", "words"),
    [
        (2_500_000_000, 0, (2_500_000_000,), (1,), "declares 2500000000 elements"),  # ten gigabytes
        (5, 0, (5,), (1,), "declares 5 elements of float32 in storage '0' and holds 16 bytes"),
        (4, 0, (5,), (1,), "beyond its storage"), (4, 2, (3,), (1,), "beyond its storage"),
        (4, 0, (2, 3), (3, 1), "beyond its storage"), (4, 0, (1 << 40,), (0,), "beyond its storage"),
        (4, 0, (1 << 62, 4), (0, 1), "beyond its storage"), (4, -1, (1,), (1,), "shape that is none"),
        (4, 0, (2,), (-1,), "shape that is none"), (4, 0, (2,), (1, 1), "shape that is none"),
        (-4, 0, (1,), (1,), "storage that is none"), (4, 0, (4,), (1,), ""), (4, 1, (2,), (2,), ""),
    ],
)  # fmt: skip
def test_tensors_that_reach_beyond_their_bytes(
    length: int, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", _rebuilt(length, offset, shape, stride))
        archive.writestr("a/data/0", np.arange(4, dtype=np.float32).tobytes())
    assert path.stat().st_size < 1024
    if words:
        with pytest.raises(CompareError, match=words):
            Reading(path)
        return
    with Reading(path) as found:
        assert numbers(found.sides[0], "r") == [float(offset + place * stride[0]) for place in range(shape[0])]


def test_every_truncation_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.pt", {"r": (f32(-1, -2, -3), mask(1, 1, 1))}).read_bytes()
    for size in range(0, len(whole), 7):
        (tmp_path / "cut.pt").write_bytes(whole[:size])
        with pytest.raises(CompareError):
            figures(tmp_path / "cut.pt")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damaged_byte_gives_numbers_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    where = tmp_path_factory.getbasetemp() / "damaged.pt"
    raw = bytearray(write(where, {"r": (f32(-1, -2, -3), mask(1, 1, 1)), "s": (f32(-4), mask(1))}).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    where.write_bytes(raw)
    try:
        figures(where)
    except CompareError as error:
        assert "damaged.pt" in error.what


def _plain(value: object, depth: int = 0) -> object:
    if depth > 12:
        return "deep"  # a damaged memo may put a dict into itself
    if isinstance(value, pickles.Name):
        return value.text
    if isinstance(value, tuple):
        return tuple(_plain(own, depth + 1) for own in value)
    if isinstance(value, dict):
        return [(_plain(key, depth + 1), _plain(own, depth + 1)) for key, own in value.items()]
    return value


def test_calls_that_are_taken_at_once_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle as torch.save writes it, whole and with each byte damaged: one instruction after the other builds the
    same, or is refused too. What stands behind it in the memo is reached again."""
    storages: list[bytes] = []
    body = bytearray(
        ptfile.remembered({f"r{n}": (f32(*[-1.0] * (n + 1)), mask(*[1] * (n + 1))) for n in range(4)}, storages)
    )
    # The last instructions take tensor, shape and arguments from the memo once more, into a tuple with the dict.
    again = [at for at in range(len(body)) if body[at : at + 1] == b"q"][-3:]
    tail = b"".join(b"h" + body[at + 1 : at + 2] for at in again) + b"\x87\x86."
    body[-1:] = tail
    names = {
        "torch._utils._rebuild_tensor_v2": lambda *given: ("tensor", *given), "torch.FloatStorage": None,
        "torch.BoolStorage": None, "collections.OrderedDict": Dict,
    }  # fmt: skip
    calls = []
    quick = pickles._Machine.tensor

    def counted(machine: pickles._Machine) -> bool:
        calls.append(quick(machine))
        return calls[-1]

    def built(data: bytearray) -> object:
        try:
            return _plain(loads(data, names, lambda saved: ("storage", *saved), "x"))
        except CompareError:
            return "refused"

    monkeypatch.setattr(pickles._Machine, "tensor", counted)
    whole = built(body)
    assert calls.count(True) == 6, "all but the first of each type, which names something"
    damaged = []
    named = body.index(b"OrderedDict\nq") + len(b"OrderedDict\nq")  # what a damaged instruction may put something over
    for at in range(2, len(body)):
        for value in (body[at] ^ 1, body[at] ^ 0x40, 0x68, body[named]):
            damaged.append(bytearray(body))
            damaged[-1][at] = value
    first = [built(data) for data in damaged]
    monkeypatch.setattr(pickles._Machine, "tensor", lambda _machine: False)
    assert built(body) == whole != "refused"
    assert [built(data) for data in damaged] == first
    assert "refused" in first and any(one not in ("refused", whole) for one in first)


def test_calls_with_far_places_in_the_memo_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than 256 objects each place has four bytes, and from 256 to 65,536 elements a length has two."""
    sizes = [1, 300, 2, 255, 256, 5] * 4
    body = ptfile.remembered({f"r{n}": (f32(*[-1.0] * size), mask(*[1] * size)) for n, size in enumerate(sizes)}, [])
    names = {
        "torch._utils._rebuild_tensor_v2": lambda *given: given, "torch.FloatStorage": None, "torch.BoolStorage": None,
        "collections.OrderedDict": Dict,
    }  # fmt: skip

    def built(data: bytes) -> object:
        try:
            return _plain(loads(data, names, lambda saved: ("storage", *saved), "x"))
        except CompareError:
            return "refused"

    places = np.random.default_rng(3).integers(len(body) // 2, len(body), 120).tolist()
    damaged = [body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :] for at in places]
    first = [built(data) for data in (body, *damaged)]
    assert [own[0][2] for _request, own in first[0]] == [(size,) for size in sizes]  # type: ignore[attr-defined]
    monkeypatch.setattr(pickles._Machine, "tensor", lambda _machine: False)
    assert [built(data) for data in (body, *damaged)] == first


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """torch.save never compresses; a numpy archive may, and is held to what numbers can be packed to."""
    path = write(tmp_path / "a.pt", {"r": (f32(*[0] * 5000), mask(*[1] * 5000))}, compress=zipfile.ZIP_DEFLATED)
    with pytest.raises(CompareError, match="compressed"):
        Reading(path)
    bomb = tmp_path / "a.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("r/logprobs.npy", b"\x93NUMPY" + bytes(300 << 20))
    with pytest.raises(CompareError, match="more than it could hold"):
        Reading(bomb)


def test_what_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    (tmp_path / "words").write_text("hello")
    for which in ("pipe", "loop", "empty", "words", "absent", "."):
        with pytest.raises(CompareError):
            Reading(tmp_path / which)
    for which in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(CompareError, match="no plain file"):
            Reading(which)


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt", {"r": (f32(-1), mask(1))})
    with Reading(path) as found:
        found.unchanged()
        path.write_bytes(path.read_bytes() + b"x")
        with pytest.raises(CompareError, match="changed"):
            found.unchanged()
    with Reading(path := write(tmp_path / "c.pt", {"r": (f32(-1), mask(1))})) as found:
        before = path.stat()
        path.write_bytes(path.read_bytes().replace(struct.pack("<f", -1), struct.pack("<f", -2)))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        with pytest.raises(CompareError, match="changed"):
            found.unchanged()
    with Reading(path := write(tmp_path / "b.pt", {"r": (f32(-1), mask(1))})) as found:
        os.truncate(path, 40)
        with pytest.raises(CompareError, match="cut"):
            found.sides[0].sequences["r"].logprobs.bits()


ONE_REQUEST = {"r": (f32(-1, -2), mask(1, 1))}


def test_a_view_that_negates_is_refused(tmp_path: Path) -> None:
    """torch.save of `torch._neg_view(x)` holds the bytes of x, and the mark as the last argument of the call."""
    for dtype, bits in (("float32", np.array([1, 2], np.float32)), ("float8_e5m2", np.array([0x3C, 0x40], np.uint8))):
        for marks, words in (({"neg": True}, "resolve_neg"), ({"conj": True, "neg": True}, "conj, neg")):
            with pytest.raises(CompareError, match=words):
                Reading(write(tmp_path / "a.pt", {"r": (T(bits, dtype, marks=marks), mask(1, 1))}))
        with Reading(write(tmp_path / "a.pt", {"r": (T(bits, dtype, marks={}), mask(1, 1))})) as found:
            assert numbers(found.sides[0], "r") == [1, 2]


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    """Which one is meant hangs on who reads: the last here, any with a search in a sorted list."""
    path = write(tmp_path / "a.pt", ONE_REQUEST)
    for again in ("a/data/0", "a/data.pkl"):
        write(path, ONE_REQUEST)
        with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(again, archive.read(again))
        with pytest.raises(CompareError, match="two members of one name"):
            Reading(path)
    np.savez(tmp_path / "a.npz", **{"r/logprobs": np.array([-1.0]), "r/mask": np.array([True])})
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("r/mask.npy", archive.read("r/mask.npy"))
    with pytest.raises(CompareError, match="two arrays of one name"):
        Reading(tmp_path / "a.npz")


def test_a_tensor_of_more_dimensions_than_there_are(tmp_path: Path) -> None:
    strange = T(np.zeros(8, np.float32), "float32", (3,) + (7,) * 64, 0, (2,) + (1,) * 64)
    with pytest.raises(CompareError, match="malformed pickle"):
        Reading(write(tmp_path / "a.pt", {"r": (strange, mask(1, 1))}))


@pytest.mark.parametrize(
    "header",
    ["(" * 3000, "[" * 100_000, "__import__('os').abort()", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -5)}",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 5)}", "{'descr': '|O', 'fortran_order': False, 'shape': (5,)}",
     "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (5,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 62,)}"],
)  # fmt: skip
def test_headers_of_numpy_that_are_none(header: str, tmp_path: Path) -> None:
    body = header.encode() + b"\n"
    length = struct.pack("<I", len(body))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("r/logprobs.npy", b"\x93NUMPY\x02\x00" + length + body + bytes(20))
    with pytest.raises(CompareError, match="is no whole numpy archive"):
        Reading(tmp_path / "a.npz")


# the other forms


def _safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]], **header: Any) -> Path:
    entries, offset = dict(header), 0
    for key, (dtype, shape, raw) in tensors.items():
        entries[key] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    body = json.dumps(entries).encode()
    path.write_bytes(len(body).to_bytes(8, "little") + body + b"".join(raw for _d, _s, raw in tensors.values()))
    return path


def test_safetensors(tmp_path: Path) -> None:
    half = np.array([0xBF80, 0xC000], "<u2")  # bfloat16: -1, -2
    path = _safetensors(
        tmp_path / "a.safetensors",
        {"x/y/logprobs": ("BF16", [2], half.tobytes()), "x/y/mask": ("BOOL", [2], b"\x01\x00")},
        __metadata__={"format": "pt"},
    )
    with Reading(path) as found:
        (side,) = found.sides
        assert side.reader == "safetensors" and side.provenance == "native"
        assert numbers(side, "x/y") == [-1, -2] and flags(side, "x/y") == [True, False]
    one = {"r/logprobs": ("F32", [2], bytes(8)), "r/mask": ("BOOL", [2], b"\x01\x01")}
    empty = len(_safetensors(path, one, __metadata__={"": ""}).read_bytes()) - 8 - 10
    for length in (640, 896, 1152, 1408):  # little-endian: 80 02, 80 03, ... which pickles begin with
        with Reading(_safetensors(path, one, __metadata__={"": "x" * (length - empty)})) as found:
            assert path.read_bytes()[0] == 0x80 and found.sides[0].reader == "safetensors"
    for wrong in (
        {"r/logprobs": ("F32", [3], bytes(8))}, {"r/logprobs": ("F99", [2], bytes(8))}, {"r/other": ("F32", [2], bytes(8))},
        {"r/logprobs": ("F32", [2], bytes(8))}, {"r/logprobs": ("F32", [-2, -1], bytes(8))},
    ):  # fmt: skip
        with pytest.raises(CompareError):
            Reading(_safetensors(tmp_path / "b.safetensors", wrong))
    twice = b'{"r/mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},' * 2
    entries = {"r/logprobs": ("F32", [2], bytes(8)), "r/mask": ("BOOL", [2], b"\x01\x01")}
    shared = _safetensors(tmp_path / "e.safetensors", entries).read_bytes().replace(b"[8, 10]", b"[6,  8]")
    for raw in (shared, len(twice).to_bytes(8, "little") + twice[:-1] + b"}" + bytes(8)):
        (tmp_path / "e.safetensors").write_bytes(raw)
        with pytest.raises(CompareError, match="no safetensors file"):
            Reading(tmp_path / "e.safetensors")
    cut = _safetensors(tmp_path / "c.safetensors", one)
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(CompareError, match="cut"):
        Reading(cut)
    (tmp_path / "d.safetensors").write_bytes(b"\xff\xff\xff\xff\xff\xff\xff\x7f{}")
    with pytest.raises(CompareError):
        Reading(tmp_path / "d.safetensors")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **{"r/logprobs": np.array([-1, -2], np.float16), "r/mask": np.array([True, False])})
    with Reading(tmp_path / "a.npz") as found:
        (side,) = found.sides
        assert side.reader == "npz" and numbers(side, "r") == [-1, -2] and flags(side, "r") == [True, False]
        assert side.sequences["r"].logprobs.element.name == "float16"
    save(tmp_path / "b.npz", **{"r/logprobs": np.array([{"x": 1}], object), "r/mask": np.array([True])})
    with pytest.raises(CompareError, match="cannot be compared"):
        Reading(tmp_path / "b.npz")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        archive.writestr("r/logprobs.npy", header.getvalue() + bytes(16))
    with pytest.raises(CompareError, match="another size"):
        Reading(tmp_path / "c.npz")


def _lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_json_lines(tmp_path: Path) -> None:
    one = {
        "request_id": 3,
        "logprobs": [-0.5, None],
        "response_mask": [True, True],
        "dtype": "float32",
        "token_ids": [1, 2],
    }
    with Reading(_lines(tmp_path / "a.jsonl", one)) as found:
        (side,) = found.sides
        assert side.provenance == "json_exact_f32" and side.sequences["3"].logprobs.element.name == "float32"
        assert numbers(side, "3")[0] == -0.5 and np.isnan(numbers(side, "3")[1]), "null is a value that is not finite"
    with Reading(_lines(tmp_path / "brace.jsonl", {"met": {}, **one})) as found:
        assert found.sides[0].reader == "jsonl", "its ninth byte is that of a safetensors file's header"
    with Reading(_lines(tmp_path / "b.jsonl", {**one, "logprobs": [-0.1, -1]})) as found:
        assert found.sides[0].provenance == "unknown" and numbers(found.sides[0], "3") == [-0.1, -1]
    with Reading(_lines(tmp_path / "c.jsonl", {**one, "response_mask": [1, 0]})) as found:
        assert found.sides[0].sequences["3"].mask.element.name == "int64"
    for wrong in ({}, {**one, "logprobs": ["x", 1]}, {**one, "logprobs": 3}, {**one, "response_mask": ["a", "b"]}, {**one, "token_ids": [1.5, 2]},
                  {**one, "logprobs": [True, 1]}, [1], {**one, "request_id": None}):  # fmt: skip
        with pytest.raises(CompareError):
            Reading(_lines(tmp_path / "d.jsonl", one, wrong))
    (tmp_path / "e.jsonl").write_text(json.dumps(one) + "\n" + json.dumps(one)[:30])
    with pytest.raises(CompareError, match="no JSON"):
        Reading(tmp_path / "e.jsonl")
    (tmp_path / "f.jsonl").write_text("{" + '"a":[' * 100_000)
    with pytest.raises(CompareError):
        Reading(tmp_path / "f.jsonl")


@pytest.mark.parametrize("which", ["safetensors", "npz", "jsonl"])
def test_damaged_bytes_of_the_other_forms(which: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{which}"
    if which == "npz":
        np.savez(path, **{"r/logprobs": np.array([-1, -2], np.float32), "r/mask": np.array([True, False])})
    elif which == "jsonl":
        _lines(path, {"request_id": 3, "logprobs": [-0.5, -1], "response_mask": [True, True], "token_ids": [1, 2]})
    else:
        _safetensors(path, {"r/logprobs": ("F32", [2], bytes(8)), "r/mask": ("BOOL", [2], b"\x01\x01")})
    whole, rng = path.read_bytes(), np.random.default_rng(5)
    for _ in range(150):
        raw = bytearray(whole)
        raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
        path.write_bytes(raw if rng.integers(2) else raw[: int(rng.integers(len(raw)))])
        try:
            figures(path)
        except CompareError as error:
            assert str(path) in error.what
