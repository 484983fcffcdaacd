"""A document as one HTML page: no script, nothing fetched, every text escaped by the template."""

from __future__ import annotations

from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from tic_daemon.output import one_line
from tic_daemon.report import svg
from tic_daemon.report.model import Bars, Bullets, Code, Document, Line, Para, Plot, Section, Table, Word

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1d2129;--soft:#5a616b;--line:#d7dae0;--page:#fff;--band:#f5f6f8;
--good:#1a7f46;--bad:#c4361c;--warn:#96600a}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ec;--soft:#9aa2ad;--line:#3a404a;--page:#15181d;--band:#1d2128;
--good:#5cc98d;--bad:#ff7a5f;--warn:#e0aa4e}}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:var(--page);
max-width:1400px;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;line-height:1.25;overflow-wrap:anywhere}h2{font-size:1.25rem;margin-top:2.4rem;padding-bottom:.25rem;
border-bottom:1px solid var(--line)}h3{font-size:1.05rem;margin-top:1.6rem}h4{font-size:1rem}
nav{color:var(--soft);font-size:.92rem}nav a{color:inherit;margin-right:.9rem;white-space:nowrap}
.scroll{overflow-x:auto;margin:.7rem 0}table{border-collapse:collapse;font-size:.88rem}
th,td{text-align:left;vertical-align:top;padding:.28rem .65rem;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft);white-space:nowrap}tbody tr:nth-child(even){background:var(--band)}
td{overflow-wrap:break-word;max-width:34rem;font-variant-numeric:tabular-nums}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap}
.long{overflow-wrap:anywhere}td .long{display:inline-block;min-width:15rem}
.note{color:var(--soft);font-size:.88rem}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}
.warn{color:var(--warn);font-weight:600}.dim{color:var(--soft)}figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.88rem}
svg{width:100%;max-width:720px;height:auto}
@media print{body{max-width:none;margin:0}h2{break-after:avoid}tr{break-inside:avoid}}
"""  # noqa: E501
_TEMPLATES: Final = {
    "page": """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ plain(document.title) }}</title><style>{{ style }}</style></head><body>
{% import "parts" as parts %}<h1>{{ parts.line(document.title) }}</h1>
<nav>{% for block in document.blocks if kind(block) == "Section" %}<a href="#s{{ loop.index }}">{{ clean(block.title) }}</a>
{% endfor %}</nav>
{% set number = namespace(at=0) %}{% for block in document.blocks %}
{%- if kind(block) == "Section" %}{% set number.at = number.at + 1 %}
<h2 id="s{{ number.at }}">{{ clean(block.title) }}</h2>
{% for one in block.blocks %}{{ parts.block(one, 3) }}{% endfor %}
{%- else %}{{ parts.block(block, 2) }}{% endif %}{% endfor %}
</body></html>
""",  # noqa: E501
    "parts": """
{%- macro inline(one) %}{% if kind(one) == "Code" %}<code{% if one.text | length > 28 %} class="long"{% endif %}>{{ clean(one.text) }}</code>
{%- elif kind(one) == "Word" %}<span class="{{ one.tone }}">{{ clean(one.text) }}</span>
{%- else %}{{ clean(one) }}{% endif %}{% endmacro -%}
{%- macro line(line) %}{% for one in line %}{{ inline(one) }}{% endfor %}{% endmacro -%}
{%- macro cell(one) %}{% if kind(one) == "tuple" %}{{ line(one) }}{% else %}{{ inline(one) }}{% endif %}{% endmacro -%}
{%- macro block(one, level) %}
{%- if kind(one) == "Section" %}<h{{ level }}>{{ clean(one.title) }}</h{{ level }}>
{% for below in one.blocks %}{{ block(below, [level + 1, 6] | min) }}{% endfor %}
{%- elif kind(one) == "Para" %}<p>{{ line(one.line) }}</p>
{% elif kind(one) == "Bullets" %}<ul>{% for each in one.lines %}<li>{{ line(each) }}</li>
{% endfor %}</ul>
{% elif kind(one) == "Table" %}<div class="scroll"><table><thead><tr>{% for name in one.columns %}<th>{{ clean(name) }}</th>
{%- endfor %}</tr></thead><tbody>
{% for row in one.rows %}<tr>{% for each in row %}<td>{{ cell(each) }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if one.note %}<p class="note">{{ clean(one.note) }}</p>
{% endif %}{% else %}<figure>{{ drawn(one) }}<figcaption>{{ clean(one.title) }}</figcaption></figure>
{% endif %}{% endmacro -%}
""",  # noqa: E501
}


def render(document: Document) -> str:
    """The document as one page."""
    pages = Environment(loader=DictLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    pages.globals.update(kind=_kind, clean=one_line, drawn=_drawn, plain=_plain)
    return pages.get_template("page").render(document=document, style=Markup(_STYLE))  # noqa: S704  ours


def _kind(one: object) -> str:
    known = (Code, Word, Para, Bullets, Table, Plot, Bars, Section, tuple)
    return next((kind.__name__ for kind in known if isinstance(one, kind)), "str")


def _plain(line: Line) -> str:
    return "".join(one_line(one if isinstance(one, str) else one.text) for one in line)


def _drawn(block: Plot | Bars) -> Markup:
    return Markup(svg.drawn(block))  # noqa: S704  it escapes its own texts
