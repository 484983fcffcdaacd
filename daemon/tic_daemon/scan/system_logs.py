"""Wrappers of system logs: journald, syslog, dmesg and the kernel's ring buffer, as their tools print them.

A peeler for each shape; `wrappers` says which is tried when.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from tic_daemon.scan.stamps import CLOCK, DATE, MONTHS, SECOND, ZONE, full, zoned
from tic_daemon.scan.wrapped import Wrapped

_WEEKDAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH_DAY: Final = r"([A-Z][a-z]{2}) {1,2}(\d{1,2})"
# Host, program and pid; of the kernel's lines the uptime may follow.
_UNIT: Final = r"([\w.-]+) ([\w./-]+)(?:\[(\d+)\])?: (?:\[ *\d+\.\d+\] )?"

JOURNAL_ISO: Final = re.compile(rf"{DATE}T{CLOCK}(?:\.(\d{{1,6}}))?{ZONE} {_UNIT}")
SYSLOG: Final = re.compile(rf"(?:<\d+>)?{_MONTH_DAY} {CLOCK} {_UNIT}")
DMESG_T: Final = re.compile(rf"\[{_WEEKDAY} {_MONTH_DAY} {CLOCK} (\d{{4}})\] ")
# With CONFIG_PRINTK_CALLER the thread or the CPU follows: `[918233.112011][T1234] `. `dmesg -d` adds the time since the
# line before, `dmesg -e` prints that alone: `[918233.112011 <    0.000012>] `, `[  +0.000012] `.
UPTIME: Final = re.compile(
    r"(?:kernel: )?\[(?: *\d+\.\d{6}(?: < *\d+\.\d{6}>)?| +\+\d+\.\d{6})\](?: ?\[ *[TC]\d{1,7}\])? "
)
# The first line of a minute of `dmesg -e`
DMESG_E: Final = re.compile(r"\[([A-Z][a-z]{2}) ?(\d{1,2}) (\d\d:\d\d)\] ")
# `dmesg -x`, `dmesg --time-format iso`, rsyslog's RFC 5424, `journalctl -o short-full` and `-o short-unix`
DMESG_X: Final = re.compile(r"(?:kern|user|daemon|syslog) *:(?:emerg|alert|crit|err|warn|notice|info|debug) *: (?=\[)")
DMESG_ISO: Final = re.compile(rf"{DATE}T{CLOCK},(\d{{6}}){ZONE} ")
RFC5424: Final = re.compile(
    rf"<\d{{1,3}}>1 {DATE}T{CLOCK}(?:\.(\d{{1,6}}))?{ZONE} ([\w.-]+) ([\w./-]+) (\d+|-) \S+ (?:-|\[[^\]\n]{{0,400}}\]) "
)
JOURNAL_FULL: Final = re.compile(rf"{_WEEKDAY} {DATE} {CLOCK}(?:\.(\d{{1,6}}))? (\w{{1,6}}|[+-]\d\d) {_UNIT}")
JOURNAL_UNIX: Final = re.compile(rf"(\d{{9,11}})\.(\d{{6}}) {_UNIT}")
KERNEL: Final = re.compile(r"kernel: ")
KMSG: Final = re.compile(r"\d+,\d+,\d+,[-c][^;]*;")


def unit(found: Wrapped, node: str, program: str, pid: str | None) -> None:
    found.node = node
    if found.outer:  # a process prints what a system log says: it is that process' line
        found.kinds += ("syslog",)
    elif program == "kernel":
        found.kinds += ("kernel",)
        found.actor = "kernel"
    else:
        found.kinds += ("syslog",)
        found.name(program, pid)


def journal_iso(hit: re.Match[str], found: Wrapped) -> None:
    found.time(zoned(hit[1], hit[2], hit[3] or "", hit[4]))
    unit(found, hit[5], hit[6], hit[7])


def syslog(hit: re.Match[str], found: Wrapped) -> None:
    if (month := MONTHS.get(hit[1])) is not None:
        found.short(month, int(hit[2]), hit[3], "", SECOND)
    unit(found, hit[4], hit[5], hit[6])


def dmesg(hit: re.Match[str], found: Wrapped) -> None:
    if (month := MONTHS.get(hit[1])) is not None:
        found.time(full(f"{hit[4]}-{month:02d}-{int(hit[2]):02d}", hit[3]))
    kernel(hit, found)


def dmesg_e(hit: re.Match[str], found: Wrapped) -> None:
    if (month := MONTHS.get(hit[1])) is not None:
        found.short(month, int(hit[2]), f"{hit[3]}:00", "", 60 * SECOND)
    kernel(hit, found)


def kernel(_hit: re.Match[str], found: Wrapped) -> None:
    # A bare uptime in front of text proves a kernel line only if nobody else has said that he wrote it.
    if not found.actor and found.pid is None and found.rank is None:
        found.actor = "kernel"
        found.kinds += ("kernel",)
    else:
        found.kinds += ("uptime",)


def nothing(_hit: re.Match[str], _found: Wrapped) -> None:
    """`dmesg -x` names facility and level; what follows is the kernel's own prefix."""


def dmesg_iso(hit: re.Match[str], found: Wrapped) -> None:
    found.time(zoned(hit[1], hit[2], hit[3], hit[4]))
    kernel(hit, found)


def rfc5424(hit: re.Match[str], found: Wrapped) -> None:
    found.time(zoned(hit[1], hit[2], hit[3] or "", hit[4]))
    unit(found, hit[5], hit[6], None if hit[7] == "-" else hit[7])


def journal_full(hit: re.Match[str], found: Wrapped) -> None:
    utc = hit[4] in {"UTC", "GMT"}  # other names of zones are not unique
    found.time(zoned(hit[1], hit[2], hit[3] or "", "Z") if utc else full(hit[1], hit[2], hit[3] or ""))
    unit(found, hit[5], hit[6], hit[7])


def journal_unix(hit: re.Match[str], found: Wrapped) -> None:
    at = datetime.fromtimestamp(int(hit[1]), UTC)
    found.time(zoned(f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}", hit[2], "Z"))
    unit(found, hit[3], hit[4], hit[5])
