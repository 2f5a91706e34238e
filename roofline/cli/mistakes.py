"""Error messages of click in the words of this program."""

from __future__ import annotations

import click

from roofline.cli.help import names_of
from roofline.errors import did_you_mean, printable

_FINDS = "the request rate is the answer; roofline predict takes --request-rate and --concurrency"
#: Options that a command lacks on purpose -> what to do instead.
_INSTEAD = {
    ("size", "--num-gpus"): "the number of GPUs is the answer; roofline predict takes --num-gpus",
    ("goodput", "--request-rate"): _FINDS,
    ("goodput", "--rate"): _FINDS,
    ("goodput", "--concurrency"): _FINDS,
    ("goodput", "-c"): _FINDS,
    **{
        ("sheet", name): "a workbook holds bursts on an idle server; for users: roofline sweep -c 64 -o FILE.xlsx"
        for name in ("-c", "--concurrency", "--users", "--max-concurrency", "--request-rate", "--rate")
    },
    ("quantize", "-q"): "every format is compared; --baseline sets the reference",
    ("quantize", "--quantization"): "every format is compared; --baseline sets the reference",
}
_JOIN = "several values of an option are joined by commas, e.g. -g h100,b200 or --slo ttft:300,tpot:25"


def reword(error: click.ClickException, commands: tuple[str, ...]) -> None:
    """Rewrite the message of an error in place, with unprintable characters escaped."""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        error.param_hint = error.param_hint or " / ".join(f"'{name}'" for name in names_of(error.param))
    message = error.message
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        instead = _INSTEAD.get((str(error.ctx.info_name), error.option_name.replace("_", "-")))
        if instead is not None:
            message = f"{error.ctx.info_name} takes no {error.option_name}: {instead}"
            vars(error)["possibilities"] = []
    elif message.startswith("Got unexpected extra argument"):
        message = f"{message}; {_JOIN}"
    elif message.startswith("No such command"):
        from difflib import get_close_matches

        typed = message.partition("'")[2].rpartition("'")[0]
        message = f"unknown command '{typed}'{did_you_mean(get_close_matches(typed, commands, 3))}"
    vars(error)["message"] = printable(message, lines=True)
