"""The reader of torch.save's files against torch itself, in both directions; without torch these are skipped."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare import ptfile
from tic_daemon.compare.elements import ELEMENTS
from tic_daemon.compare.reading import Reading

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="torch is not installed: make test-all installs it")

FLOATS = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_type_that_torch_writes(dtype: str, tmp_path: Path) -> None:
    """All bit patterns of small types, many of wide ones: bits, values and masks as torch has them."""
    kind, element = getattr(torch, dtype), ELEMENTS[dtype]
    wide = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[element.size]
    bits = np.random.default_rng(3).integers(0, 1 << 8 * element.size, 4096, dtype=np.uint64).astype(element.bits)
    if element.size == 1:
        bits = np.arange(256, dtype=np.uint8)
    numbers = (
        torch.from_numpy(bits.view(f"<{'u' if element.size == 1 else 'i'}{element.size}").copy()).to(wide).view(kind)
    )
    mask = torch.arange(len(bits)) % 3 != 0
    path = tmp_path / "a.pt"
    torch.save({"r": (numbers, mask), "view": (numbers[5:50:3], mask[5:50:3])}, path)
    with Reading(path) as found:
        (side,) = found.sides
        own = side.sequences["r"].logprobs
        assert own.element is element and np.array_equal(own.bits(), bits)
        assert np.array_equal(element.values(own.bits()), numbers.double().numpy(), equal_nan=True)
        assert np.array_equal(side.sequences["r"].mask.bits(), mask.numpy().view(np.uint8))
        view = side.sequences["view"]
        assert np.array_equal(view.logprobs.bits(), bits[5:50:3]) and view.mask.shape == (15,)


def test_the_tests_own_files_are_those_of_torch(tmp_path: Path) -> None:
    """The pickle that the tests and the benchmark write is torch's, byte by byte."""
    values = {f"r{place}": np.arange(5 + place, dtype=np.float32) for place in range(300)}
    path = tmp_path / "a.pt"
    torch.save(
        {key: (torch.from_numpy(own), torch.ones(len(own), dtype=torch.bool)) for key, own in values.items()}, path
    )
    with zipfile.ZipFile(path) as archive:
        real = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
    pairs = {key: (ptfile.T(own, "float32"), ptfile.T(np.ones(len(own), bool), "bool")) for key, own in values.items()}
    assert ptfile.remembered(pairs, []) == real


def test_protocols_and_odd_values(tmp_path: Path) -> None:
    class Own(dict[str, Any]):
        pass

    value = {"r": [torch.nn.Parameter(torch.tensor([-1.0])), torch.tensor([True])]}
    for protocol in (2, 3, 4, 5):
        path = tmp_path / f"p{protocol}.pt"
        torch.save(value, path, pickle_protocol=protocol)
        with Reading(path) as found:
            assert found.sides[0].sequences["r"].logprobs.bits().view("<f4").tolist() == [-1]
    torch.save({"r": (torch.tensor(-1.0), torch.tensor(True))}, tmp_path / "scalar.pt")
    with Reading(tmp_path / "scalar.pt") as found:
        assert found.sides[0].sequences["r"].logprobs.shape == ()


def test_torch_reads_what_the_tests_write(tmp_path: Path) -> None:
    value = {"r": (ptfile.f32(-1.5, -0.0), ptfile.mask(1, 0)), "words": [1, 2.5, "x", None, True], "big": 2**60}
    found = torch.load(ptfile.write(tmp_path / "a.pt", value), weights_only=True)
    assert found["r"][0].tolist() == [-1.5, 0] and found["r"][1].tolist() == [True, False]
    assert found["words"] == value["words"] and found["big"] == 2**60


def test_what_torch_refuses_is_refused(tmp_path: Path) -> None:
    from pathlib import PurePosixPath

    from tic_daemon.errors import CompareError

    torch.save({"r": PurePosixPath("/x")}, tmp_path / "a.pt")
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        torch.load(tmp_path / "a.pt", weights_only=True)
    with pytest.raises(CompareError, match="asks for pathlib"):
        Reading(tmp_path / "a.pt")
    torch.save(
        {"r": (torch.tensor([-1.0]), torch.tensor([True]))}, tmp_path / "old.pt", _use_new_zipfile_serialization=False
    )
    with pytest.raises(CompareError, match=r"before 1\.6"):
        Reading(tmp_path / "old.pt")
