"""Numbers, PCI ids and key/value lists."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tic_daemon.scan.values import integer, key_values, number, pci


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.41", 0.41),
        ("-1e-05", -1e-05),
        ("1e-06", 1e-06),
        (".5", 0.5),
        ("3", 3.0),
        ("np.float64(0.4121)", 0.4121),
        ("np.int64(7)", 7.0),
        ("tensor(0.5)", 0.5),
        ("tensor(0.5, device='cuda:0')", 0.5),
        ("inf", math.inf),
        ("-inf", -math.inf),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "abc", "1_000", "0x10", "1,000", "None", "1 2", "nano", "np.float64(x)", "١٢"])
def test_no_numbers(text: str) -> None:
    assert number(text) is None


def test_nan_and_range() -> None:
    assert math.isnan(number("nan") or 0) and math.isnan(number("np.float64(nan)") or 0)
    assert integer("9223372036854775807") == 2**63 - 1
    assert integer("9223372036854775808") is None and integer("1.0") is None


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("PCI:0000:5d:00", "0000:5d:00"),
        ("0000:5D:00.0", "0000:5d:00"),
        ("00000000:5D:00.0", "0000:5d:00"),
        ("5d000", "0000:5d:00"),
        ("101c0", "0000:10:1c"),
        ("100005d000", "100005d000"),
        ("10005d000", "1000:5d:00"),
        ("MIG-1", "MIG-1"),
        ("", ""),
    ],
)
def test_one_spelling_for_one_gpu(text: str, one: str) -> None:
    assert pci(text) == one


KEY = st.from_regex(r"[a-z][a-z0-9_/@.+-]{0,20}", fullmatch=True)


@given(st.lists(st.tuples(KEY, st.floats(allow_nan=False)), max_size=300))
def test_verl_lines_lose_nothing(pairs: list[tuple[str, float]]) -> None:
    text = "".join(f" - {key}:{value!r}" for key, value in pairs)
    assert [(key, value) for key, value, _printed in key_values("verl", text)] == pairs


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
        st.one_of(
            st.floats(allow_nan=False),
            st.integers(-9999, 9999),
            st.lists(st.integers(), max_size=3),
            st.text(max_size=5),
        ),
        max_size=20,
    )
)
def test_reprs_of_dicts(values: dict[str, object]) -> None:
    found = key_values("dict", repr(values))
    assert [printed for _key, _value, printed in found] == [repr(value) for value in values.values()]
    for (_key, value, _printed), wanted in zip(found, values.values(), strict=True):
        if isinstance(wanted, int | float):
            assert value == wanted


def test_dict_with_casts_and_strings() -> None:
    text = "{'loss': np.float64(0.01), 'lr': '1.2e-05', 'a': [1, 2], 'b': {'c': 1}, 'n': nan}"
    found = {key: value for key, value, _printed in key_values("dict", text)}
    assert found["loss"] == 0.01 and found["lr"] == 1.2e-05 and found["a"] is None and found["b"] is None
    assert math.isnan(found["n"] or 0)


def test_pipes() -> None:
    megatron = " consumed samples:  256 | elapsed time per iteration (ms): 11403.4 | lm loss: 2.100989E+00 "
    megatron += "| number of nan iterations:   0 |"
    assert [(key, value) for key, value, _ in key_values("pipe", megatron)] == [
        ("consumed samples", 256.0),
        ("elapsed time per iteration (ms)", 11403.4),
        ("lm loss", 2.100989),
        ("number of nan iterations", 0.0),
    ]
    prime = "  31.02s | Loss 0.0031 | Mismatch KL 0.0009 | Grad. Norm 0.1210 | LR 1.00e-06 "
    prime += "| Throughput 11,021 tokens/s | MFU 31.2%"
    assert [(key, value) for key, value, _ in key_values("pipe", prime)] == [
        ("Loss", 0.0031),
        ("Mismatch KL", 0.0009),
        ("Grad. Norm", 0.121),
        ("LR", 1e-06),
        ("Throughput", 11021.0),
        ("MFU", 31.2),
    ]


def test_titan() -> None:
    text = "loss:  8.13840  grad_norm:  1.2  memory:  5.29GiB(6.6%)  tps: 11,021"
    assert [(key, value) for key, value, _ in key_values("titan", text)] == [
        ("loss", 8.1384),
        ("grad_norm", 1.2),
        ("memory", 5.29),
        ("tps", 11021.0),
    ]


@given(st.sampled_from(["verl", "dict", "pipe", "titan"]), st.text(max_size=400))
def test_any_text_is_survived(form: str, text: str) -> None:
    for key, value, printed in key_values(form, text):
        assert isinstance(key, str) and isinstance(printed, str) and (value is None or isinstance(value, float))


def test_a_step_line_that_ray_has_cut_gives_the_values_that_it_shows() -> None:
    assert key_values("verl", "a/b:1 - c:2.5 - actor/ent") == [("a/b", 1.0, "1"), ("c", 2.5, "2.5")]
