"""An answer as a small table of HTML, which notebooks show in place of its line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from types import SimpleNamespace
from typing import Any, TypeAlias

from roofline.numbers.operations import figure_text
from roofline.numbers.quantity import MILLI, percent_figure, rounded
from roofline.serving.knee import Knees
from roofline.serving.prediction import Prediction
from roofline.serving.shown import KNEE_KEYS, ROW_KEYS, figures, gpus_text, plan_text
from roofline.serving.summary import prediction_facts
from roofline.specs.load import LASTING, RUN
from roofline.specs.workload import key_text

_Row: TypeAlias = Mapping[str, Any]
_MOST = 10  # rows
_FEW_KEYS = 16  # of rows of which all are shown: a caller chose them, or the question has no more
_LONGEST = 300  # characters of a cell

#: Own keys of answers, by the name of their class, which come before the columns of their case; of those, by their
#: titles, the ones that come first.
_OWN = {
    "Budget": ("setting", "setting_value", "is_default", "is_best_value"),
    "CacheTier": (
        "GPU", "cache_tier", "cache_load_ms", "recompute_ms", "break_even_prefix", "faster",
        "prefixes_held",
    ),
    "Comparison": ("label", "prefill_speedup", "decode_speedup", "why_decode"),
    "Curve": ("request_rate", "concurrency", "util"),
    "Disaggregation": (
        "prefill_pool", "decode_pool", "prefill_util", "decode_util", "transfer_ms", "prefill_basis", "decode_basis",
    ),
    "EngineFit": ("constant", "meaning", "shipped", "fitted", "known", "telling"),
    "Fit": (
        "GPU", "plan", "start_verdict", "kv_tokens", "max_concurrency", "largest_max_model_len", "largest_max_num_seqs",
        "start_error", "remedies",
    ),
    "GpuCost": (
        "GPU", "plan", "cost_at", "usd_per_request", "usd_per_m_input_tok", "usd_per_m_decode_tok",
        "usd_per_m_blended_tok", "pays", "break_even_util",
    ),
    "GpuGoodput": ("GPU", "plan", "goodput", "goodput_gpu", "goodput_util", "goodput_binding"),
    "Knees": tuple(KNEE_KEYS),
    "Levers": ("lever", "ttft_p99_change", "tpot_change", "goodput_change", "cost_change", "helps", "quality"),
    "MeasurementCheck": (
        "source", "measured_ttft_ms", "predicted_ttft_ms", "ttft_verdict", "measured_tpot_ms", "predicted_tpot_ms",
        "tpot_verdict", "suspects",
    ),
    "Quantization": (
        "quantization", "kv_cache_dtype", "num_gpus_smallest", "largest_batch", "prefill_speedup", "decode_speedup",
    ),
    "Sensitivity": ("result", "input", "meaning", "value", "elasticity", "regime"),
    "Simulation": ("simulated_ttft_ms", "simulated_ttft_p99_ms", "simulated_tpot_ms", "simulated_tpot_p99_ms"),
    "Solution": ("unknown", "value", "present", "binding", "regime"),
    "Speculation": ("draft_tokens", "tokens_per_step", "draft_speedup", "is_best"),
}  # fmt: skip
_OWN |= {"_KneesInRows": _OWN["Knees"], "Sensitivities": _OWN["Sensitivity"]}
_RANGED = ("TTFT", "TPOT")
_PER_CENT = ("_change", "_frac", "_util", "util", "headroom")  # ends of keys whose numbers are shares


def html_table(answer: Any, heading: str, *, both_ends: bool = False) -> str | None:
    """The first rows of an answer, or what is known of its only case; None where its elements are no rows.

    Args:
        answer: any of the API.
        heading: the title of the table.
        both_ends: whether the last rows are shown with the first, of an answer that has many.
    """
    if isinstance(answer, Prediction) and not _shape(answer):
        return _written(heading, [_line_of_facts(*fact) for fact in prediction_facts(answer).items()])
    name = type(answer).__name__
    is_list = isinstance(answer, Sequence) and not isinstance(answer, tuple)
    if is_list:
        is_cut = both_ends and len(answer) > _MOST
        half = _MOST // 2
        first = [*answer[:half], *answer[-half:]] if is_cut else list(islice(answer, _MOST))
        if not all(isinstance(each, Mapping) or hasattr(each, "to_rows") for each in first):
            return None
        name = type(first[0]).__name__ if first else name
        rows: list[_Row] = [row for each in first for row in (each.to_rows() if hasattr(each, "to_rows") else [each])]
        hidden = len(answer) - len(first) + max(0, len(rows) - _MOST)
    else:
        rows, count = _rows_of_cases(answer)
        hidden, is_cut = count - min(count, _MOST), False
    columns, basis = _columns(name, rows[:_MOST]), getattr(getattr(answer, "prediction", None), "basis", None)
    if isinstance(basis, str) and "basis" not in columns:
        columns["basis"] = [basis] * len(rows[:_MOST])
    if len(rows) == 1 and not hidden:
        return _written(heading, [_line_of_facts(title, texts) for title, texts in columns.items()])
    alike = {title: texts[0] for title, texts in columns.items() if len(set(texts)) == 1}
    differing = {title: texts for title, texts in columns.items() if title not in alike}
    if not differing:
        differing, alike = columns, {}
    lines = [f"<tr>{''.join(_head(title, 'col') for title in differing)}</tr>"]
    lines += [f"<tr>{''.join(map(_cell, line))}</tr>" for line in zip(*differing.values(), strict=True)]
    if is_cut:
        lines.insert(1 + half, f"<tr>{_cell('...') * len(differing)}</tr>")
    more = f"... {hidden:,} more" if hidden and not is_cut else ""
    same = "; ".join(f"{title}: {text}" for title, text in alike.items())
    return _written(heading, lines, more, f"In all of these rows: {same}" if same else "")


# Rows of an answer.


def _shape(answer: Any) -> tuple[int, ...]:
    """Axes of its cases; () where it has one, or rows."""
    of = answer.ttft if isinstance(answer, Prediction) else answer.smallest[0] if isinstance(answer, Knees) else None
    return getattr(of, "shape", ())


def _rows_of_cases(answer: Any) -> tuple[list[_Row], int]:
    """Rows, and how many there are; of arrays only the first are made."""
    shape = _shape(answer)
    if not shape:
        rows = answer.to_rows()
        return rows, len(rows)
    from roofline.numbers.arrays import first_elements

    of = getattr(answer, "prediction", None) or answer
    columns = (
        figures(of, ROW_KEYS[:-1])  # without the warnings
        if isinstance(of, Prediction)
        else {key: KNEE_KEYS[key].of(of) for key in KNEE_KEYS}  # type: ignore[misc]
    )
    firsts = {key: first_elements(values, shape, _MOST) for key, values in columns.items()}
    count = math.prod(shape)
    return [{key: values[place] for key, values in firsts.items()} for place in range(min(count, _MOST))], count


# Columns: those of a case, which many answers have, and the own ones of a question.


def _columns(name: str, rows: Sequence[_Row]) -> dict[str, list[str]]:
    """Texts of each column by its title; columns without any text are left out."""
    keys = tuple(rows[0]) if rows else ()
    if len(keys) <= _FEW_KEYS and name not in _OWN:
        found = {key: [_text(key, row) for row in rows] for key in keys if not _is_end(key, keys)}
    else:
        case = {} if name in ("Sensitivity", "EngineFit") else _CASE
        own = [key for key in _OWN.get(name, ()) if key in case or key in keys]
        titles = dict.fromkeys([*own, *case])
        found = {title: [case[title](row) if title in case else _text(title, row) for row in rows] for title in titles}
        found["why"] = [_text("why", row) or _text("reason", row) for row in rows]
        found = {_with_range(title, texts): texts for title, texts in found.items()}
    return {title: texts for title, texts in found.items() if any(texts)}


def _with_range(title: str, texts: Iterable[str]) -> str:
    """The title of a column; of times with ranges it says how wide they are."""
    return f"{title} (80 %)" if title in _RANGED and any("(" in text for text in texts) else title


def _is_end(key: str, keys: Iterable[str]) -> bool:
    """Whether a key is an end of the range of another, beside which it is shown."""
    return any(end in key and key.replace(end, "") in keys for end in ("_low", "_high"))


def _plan(row: _Row) -> str:
    if row.get("tp") is None:
        return ""
    degrees = SimpleNamespace(**{name: row.get(name, 1) for name in ("tp", "pp", "ep", "dp", "cp", "dcp")})
    return plan_text(degrees, row.get("weight_dtype") or row.get("quantization"))


def _gpus(row: _Row) -> str:
    return gpus_text(str(row["gpu"]), row.get("num_gpus")) if row.get("gpu") else ""


def _load(row: _Row) -> str:
    stated = [name for name in _LOADS if row.get(name) is not None] if "load" not in row else [row["load"]]
    name = "batch" if stated == ["burst"] else stated[0] if len(stated) == 1 else ""
    figure = row.get(name)
    if name not in _LOADS or figure is None:
        return ""
    text, unit = rounded(figure), _LOADS[name]
    return f"batch {text}" if name == "batch" else f"{text} {unit.removesuffix('s') if text == '1' else unit}"


def _time(key: str) -> Callable[[_Row], str]:
    return lambda row: _text(f"{key}_ms", row)


def _limited(row: _Row) -> str:
    """The latency at the level that the SLO limits, where it is not a mean."""
    key = row.get("slo_binding") or ""
    time = _text(f"{key}_ms", row) if "_p" in key else ""
    return f"{key_text(key)} {time}" if time else ""


def _bound(row: _Row) -> str:
    passes = {name: row.get(f"{name}_bound") for name in ("prefill", "decode")}
    return ", ".join(f"{name} {bound}" for name, bound in passes.items() if bound)


def _verdict(row: _Row) -> str:
    word, why = row.get("slo_verdict"), row.get("slo_reason")
    return " ".join(part for part in (word or "", f"({why})" if why else "") if part)


#: Units of loads, by the names of their options.
_LOADS = {"batch": "", **{name: kind.unit for name, kind in LASTING.items()}, RUN: "requests"}
_CASE: dict[str, Callable[[_Row], str]] = {
    "model": lambda row: _text("model", row),
    "GPU": _gpus,
    "plan": _plan,
    "isl": lambda row: _text("isl", row),
    "osl": lambda row: _text("osl", row),
    "load": _load,
    "TTFT": _time("ttft"),
    "TPOT": _time("tpot"),
    "limited": _limited,
    "tok/s/user": lambda row: _text("tok_s_user", row),
    "tok/s/GPU": lambda row: _text("output_tok_s_gpu", row),
    "bound by": _bound,
    "SLO": _verdict,
    "USD/h": lambda row: _text("usd_per_hour", row),
    "USD/M out": lambda row: _text("usd_per_m_output_tok", row),
    "basis": lambda row: _text("basis", row),
}


def _text(key: str, row: _Row) -> str:
    """A value of a row in three digits with its unit, and its range where the row has one; empty for what is not known.

    >>> _text("ttft_ms", {"ttft_ms": 30.94, "ttft_low_ms": 25.2, "ttft_high_ms": 38.0})
    '30.9 ms (25.2 to 38)'
    >>> _text("cost_change", {"cost_change": -0.2}), _text("knee", {"knee": None}), _text("fits", {"fits": True})
    ('-20 %', '', 'yes')
    """
    value = row.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _words(value)
    stem, unit = (key.removesuffix("_ms"), "_ms") if key.endswith("_ms") else (key, "")
    names = ("low", "high") if key == "fitted" else (f"{stem}_low{unit}", f"{stem}_high{unit}")
    figure, *ends = [
        _figure(key, each, row) for each in (value, *map(row.get, names)) if isinstance(each, (int, float))
    ]
    if len(ends) < len(names) or not all(ends):
        return figure
    shared = {text.partition(" ")[2] for text in (figure, *ends)}
    return f"{figure} ({' to '.join(text.partition(' ')[0] if len(shared) == 1 else text for text in ends)})"


def _figure(key: str, value: float, row: _Row) -> str:
    if not math.isfinite(value):
        return ""
    if key.endswith("_ms"):
        return figure_text(value * MILLI, "s") if value else "0 ms"
    if key.endswith(_PER_CENT):
        return f"{'+' if key.endswith('_change') and value > 0.0 else ''}{percent_figure(value)} %"
    unit = row.get("unit") if key in ("value", "present") else None
    return rounded(value) if unit in (None, "", "1") else figure_text(value, unit)


def _words(value: object) -> str:
    """Texts, conditions and lists of texts; empty for what a cell cannot hold."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "; ".join(str(each) for each in value if isinstance(each, (str, int, float)))
    return value if isinstance(value, str) else ""


# HTML. Colours and fonts are those of the notebook, in light and dark.


def _written(heading: str, lines: Iterable[str], *below: str) -> str:
    notes = "".join(f"<p>{escape(text)}</p>" for text in below if text)
    return f"<table><caption>{escape(_short(heading))}</caption>{''.join(lines)}</table>{notes}"


def _line_of_facts(label: str, parts: Iterable[str]) -> str:
    return f"<tr>{_head(label, 'row')}{_cell(''.join(parts))}</tr>"


def _head(text: str, scope: str) -> str:
    return f'<th scope="{scope}">{escape(text)}</th>'


def _cell(text: str) -> str:
    """A cell; line breaks stay."""
    return f'<td style="text-align: left">{"<br/>".join(map(escape, _short(text).splitlines()))}</td>'


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
