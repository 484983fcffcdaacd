"""Replaces secrets in what is kept of a run's configuration, summary, receipts and sidecars.

A value goes whole if its key names a secret (`api_key`, `hf_token`, `db.password`); `max_tokens`, `tokenizer` and
`eos_token` name none. In other text what looks like a well-known kind of credential goes: access tokens with their
prefixes, a password in a URL, a private key. What looks like nothing known stays: this is care, no guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

PLACE: Final = "[secret]"

_WORD_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_NAMES: Final = re.compile(
    r"(?:\A|_)(?:api_?keys?|secret(?:s|_?key|_access_key)?|passw(?:or)?d|passphrase|credentials?|private_?key|access_?key(?:_id)?"
    r"|bearer|authorization|auth_key|webhook(?:_url)?|client_secret|ssh_key"
    r"|(?:api|auth|access|bearer|refresh|session|secret|hub|hf|huggingface|github|gitlab|git|wandb|slack|oauth|id|user|aws|azure)_token)\Z"
)
_LONELY: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,}")
"""What a key that is only `token` must hold to be a secret."""
_VALUES: Final = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|wandb_v1_[A-Za-z0-9_]{20,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_ASSIGNED: Final = re.compile(
    r"(?<![\w$-])((?:[A-Z0-9_]*(?:API_?KEY|TOKEN|SECRET|SECRET_?KEY|PASSW(?:OR)?D|ACCESS_KEY(?:_ID)?)=)"
    r"|(?:--(?:[a-z]+-)*(?:api-?key|(?:auth|access|hf|hub|wandb|github)-token|secret|passw(?:or)?d)[= ]))"
    r"(?![\"']?(?:[$*<]|\d+(?:[\"'\s]|\Z)))([\"']?)[^\s\"']{6,}\2"
)
"""A secret that a command or a list of variables passes on."""


def without_credentials(value: Any, key: str = "") -> Any:
    """A copy of a JSON value with secrets replaced. `key`: its full name."""
    if isinstance(value, Mapping):
        return {name: without_credentials(below, str(name)) for name, below in value.items()}
    if value not in (None, "", [], 0) and not isinstance(value, bool) and _is_secret(key, value):
        return PLACE
    if isinstance(value, list):
        return [without_credentials(below, key) for below in value]
    return without_secrets(value) if isinstance(value, str) else value


def without_secrets(text: str) -> str:
    """A text without what looks like a credential, whatever its key is."""
    return _VALUES.sub(PLACE, _ASSIGNED.sub(rf"\1{PLACE}", text))


def _is_secret(key: str, value: Any) -> bool:
    alone = _words(key) == "token" and isinstance(value, str) and _LONELY.fullmatch(value) is not None
    return alone or names_secret(key)


def names_secret(key: str) -> bool:
    """Whether a key, of which the last level counts, names a secret."""
    return bool(_NAMES.search(_words(re.split(r"[./]", key)[-1])))


def _words(key: str) -> str:
    return "_".join(part for part in _WORD_BREAK.split(key) if part).lower()
