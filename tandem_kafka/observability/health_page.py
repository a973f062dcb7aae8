"""The page about the health of consumers: HTML without scripts and without other files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from tandem_kafka import Health
from tandem_kafka.observability.health_history import PARTITIONS, History

#: The browser loads the page again after this time.
REFRESH_S: Final = 5
WIDTH, HEIGHT = 120, 22
#: The class of each state.
_CLASSES: Final = {"ready": "good", "not ready": "warn", "not alive": "bad"}

FOOTER: Final = "Lag: records between the position and the end of the partition at the last fetch."

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; }
:root { --good: #1a7f37; --bad: #cf222e; --warn: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; --warn: #d29922; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem; }
h1 { font-size: 1.25rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
section { border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; }
dl { display: grid; gap: .6rem 1rem; }
dl { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
dt { font-size: .8rem; opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
.state { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }
.warn { color: var(--warn); } ul { padding-left: 1.2rem; margin: .3rem 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th { font-size: .8rem; font-weight: 400; opacity: .7; text-align: left; }
th, td { padding: .2rem .8rem .2rem 0; border-top: 1px solid var(--line); }
td:first-child { overflow-wrap: anywhere; min-width: 8rem; }
td[colspan] { border: 0; padding-top: 0; font-size: .85rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { vertical-align: middle; } footer { font-size: .8rem; opacity: .7; }
"""


class View(NamedTuple):
    """What is shown of one consumer."""

    health: Health
    history: History


def page(views: Sequence[View], now_ms: int) -> str:
    """Return the page.

    Args:
        views: The consumers.
        now_ms: The present time of the clock of the samples.
    """
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="refresh" content="{REFRESH_S}">',
            f"<title>{_title(views)}</title><style>{STYLE}</style></head><body>",
            *(part for view in views for part in _consumer(view, now_ms)),
            f"<footer>Loaded again every {REFRESH_S} s. {FOOTER}</footer></body></html>",
        ]
    )


def _title(views: Sequence[View]) -> str:
    states = dict.fromkeys(health.state for health, _ in views)
    return escape(f"{', '.join(states)} - tandem-kafka")


def _consumer(view: View, now_ms: int) -> Iterator[str]:
    health, history = view
    kind, name = _CLASSES[health.state], _text(health.client_id)
    yield f'<section><h1>{name} <span class="state {kind}">{health.state}</span></h1>'
    yield from _list("", [*health.not_ready], kind)
    yield from _facts(health, history)
    yield from _list("Troubles", health.troubles, "warn")
    yield from _partitions(health, history)
    rebalances = (
        f"{_age(now_ms - each.at_ms)} ago: generation {each.generation_id}, "
        f"{each.added} partitions added, {each.removed} removed"
        for each in history.rebalances
    )
    yield from _list("Last rebalances", rebalances, "")
    yield "</section>"


def _facts(health: Health, history: History) -> Iterator[str]:
    member = health.member_id or "-"
    yield "<dl>"
    yield _fact("group", _text(health.group_id))
    if health.group_id is not None:
        yield _fact("member", escape(member))
        yield _fact("generation", str(health.generation_id))
    if health.rebalance_ms is not None:
        yield _fact("rebalancing for", _age(health.rebalance_ms))
    lag = sum(each.lag or 0 for each in health.partitions.values())
    yield _fact("lag", f"{lag:,} {_sparkline(history.total())}")
    yield _fact("last poll()", _ago(health.poll_ms))
    yield _fact("last handler took", _age(health.handler_ms))
    yield _fact("last accepted fetch", _ago(health.fetch_ms))
    yield _fact("last accepted heartbeat", _ago(health.heartbeat_ms))
    yield _fact("last stored commit", _ago(health.commit_ms))
    yield _fact("buffer", f"{health.buffer_bytes / max(1, health.buffer_limit_bytes):.0%}")
    yield _fact(
        "requests", f"{health.requests_in_flight} in flight, {health.requests_queued} queued"
    )
    yield "</dl>"


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def _partitions(health: Health, history: History) -> Iterator[str]:
    if not health.partitions:
        return
    rows = sorted(health.partitions.items(), key=lambda item: -(item[1].lag or 0))
    shown = sorted(rows[:PARTITIONS])
    yield '<h2>Partitions</h2><div class="scroll"><table><tr><th>partition</th>'
    yield '<th class="number">position</th><th class="number">lag</th><th>last minutes</th></tr>'
    for tp, each in shown:
        yield f"<tr><td>{escape(tp.topic)}-{tp.partition}</td>{_number(each.position)}"
        yield f"{_number(each.lag)}<td>{_sparkline(history.of(tp))}</td></tr>"
        if each.stuck:
            reason = escape(each.stuck)
            yield f'<tr><td class="warn" colspan="4">no records: {reason}</td></tr>'
    yield "</table></div>"
    if len(rows) > len(shown):
        yield f"<p>The {PARTITIONS} with most lag of {len(rows):,}.</p>"


def _number(value: int | None) -> str:
    return f'<td class="number">{"-" if value is None else f"{value:,}"}</td>'


def _list(title: str, entries: Iterable[str], kind: str) -> Iterator[str]:
    items = "".join(f'<li class="{kind}">{escape(entry)}</li>' for entry in entries)
    if items:
        yield f"<h2>{title}</h2>" if title else ""
        yield f"<ul>{items}</ul>"


def _sparkline(values: Sequence[int | None]) -> str:
    """Return a line of the values that are known, from zero to the highest one."""
    highest = max((value or 0 for value in values), default=0)
    if len(values) < 2 or not highest:
        return ""
    step = WIDTH / (len(values) - 1)
    points = " ".join(
        f"{index * step:.1f},{HEIGHT - 1 - (HEIGHT - 2) * value / highest:.1f}"
        for index, value in enumerate(values)
        if value is not None
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="at most {highest:,}">'
        f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
    )


def _text(value: str | None) -> str:
    return "-" if value is None else escape(value)


def _ago(age_ms: int | None) -> str:
    return "never" if age_ms is None else f"{_age(age_ms)} ago"


def _age(age_ms: int) -> str:
    seconds = age_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"
