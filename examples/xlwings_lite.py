"""Functions of Excel that predict: `main.py` of xlwings Lite, Python inside Excel (docs/howto/spreadsheets.md).

    =ROOFLINE.TTFT(A2, B2, 2000, 300, 16)       milliseconds; ROOFLINE.TPOT likewise
    =ROOFLINE.REASON(A2, B2, 2000, 300, 16)     why there is no time, or "ok"
    =ROOFLINE.FILL(A1:G50)                      cases below their headings in; RESULTS of each of them out, beside them

Without xlwings the functions are plain ones, and the script prints what cells would show.
"""

from typing import Annotated, Any

import roofline as rl

try:
    from xlwings import func
except ImportError:

    def func(**_: Any) -> Any:
        """Leave a function as it is."""
        return lambda function: function


RESULTS = ["ttft_ms", "tpot_ms", "num_gpus", "fits", "reason"]
NEEDED = ("model", "gpu", "isl", "osl", "batch")
BLANK = (None, "", 0)  # what Excel hands over for a cell that holds nothing


@func(namespace="roofline")
def ttft(model: str, gpu: str, isl: float, osl: float, batch: float = 1, quantization: str = "", tp: int = 0) -> float:
    """Time to first token [ms]; without tp on the fewest GPUs that fit."""
    return times(model, gpu, isl, osl, batch, quantization, tp)["ttft_ms"]


@func(namespace="roofline")
def tpot(model: str, gpu: str, isl: float, osl: float, batch: float = 1, quantization: str = "", tp: int = 0) -> float:
    """Time per output token after the first [ms]; without tp on the fewest GPUs that fit."""
    return times(model, gpu, isl, osl, batch, quantization, tp)["tpot_ms"]


@func(namespace="roofline")
def reason(model: str, gpu: str, isl: float, osl: float, batch: float = 1, quantization: str = "", tp: int = 0) -> str:
    """Why a case has no times, or "ok"."""
    return outcome(model, gpu, isl, osl, batch, quantization, tp)["reason"] or "ok"


@func(namespace="roofline")
def fill(cases: Annotated[list, {"ndim": 2}]) -> list:
    """RESULTS of cases; their first row has the headings model, gpu, isl, osl, batch, perhaps quantization, tp."""
    names = [str(name).strip().lower() for name in cases[0]]
    if missing := [name for name in NEEDED if name not in names]:
        raise rl.BadInput(f"the first row has no heading {', '.join(missing)}")
    filled = [RESULTS]
    for cells in cases[1:]:
        case = {name: cell for name, cell in zip(names, cells, strict=True) if name in (*NEEDED, "quantization", "tp")}
        blank = case["model"] in BLANK and case["gpu"] in BLANK
        filled.append([""] * len(RESULTS) if blank else [outcome(**case).get(key) for key in RESULTS])
    return filled


def outcome(model: str, gpu: str, isl: float, osl: float, batch: float, quantization: str = "", tp: int = 0) -> dict:
    """Row of `rl.table`; its `reason` says why there are no times."""
    formats, degree = (None if given in BLANK else given for given in (quantization, tp))
    try:
        case = {"isl": isl, "osl": osl, "batch": batch, "quantization": formats, "tp": degree}
        return rl.table([model], [gpu], **case, keys=RESULTS[:-1])[0]  # the reason comes with every row
    except rl.RooflineError as fault:
        return {"reason": f"{type(fault).__name__}: {fault}"}


def times(*case: Any) -> dict:
    """Row of a case that has times; Excel shows #VALUE! and the message where there are none."""
    row = outcome(*case)
    if row["reason"]:
        raise rl.RooflineError(row["reason"])
    return row


if __name__ == "__main__":
    print(ttft("llama-3.1-8b", "h100", 2000, 300, 16), reason("llama-3.1-70b", "a10", 2000, 300, 64), sep="\n")
    print(*fill([list(NEEDED), ["llama-3.1-8b", "h100", 2000, 300, 16], ["lama", "h100", 2000, 300, 16]]), sep="\n")
