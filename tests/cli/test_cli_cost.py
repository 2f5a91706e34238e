"""The `cost` command: what tokens cost on each GPU, and against an API."""

from pathlib import Path

import pytest
from asking import answered, ask, rows

import roofline as rl

CASE = ("-m", "llama-3.1-8b", "--isl", "2000", "--osl", "200")


def test_the_recipe_of_a_token_s_cost_is_what_the_command_prints():
    page = (Path(rl.__file__).parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")
    command, printed = page.partition("```console\n$ roofline ")[2].partition("\n```")[0].split("\n", 1)
    assert command.startswith("cost ")
    assert answered(*command.split()).rstrip() == printed


def test_rows_are_those_of_the_api():
    words = ("--request-rate", "4", "--gpu-price", "2-4", "--api-price", "in:0.05,out:0.2")
    found = rows("cost", *CASE, "-g", "h100,a100", *words)
    asked = rl.cost(
        "llama-3.1-8b", ["h100", "a100"], isl=2000, osl=200, request_rate=4, gpu_price=(2, 4),
        api_price={"in": 0.05, "out": 0.2},
    )  # fmt: skip
    assert found == [one.to_dict() for one in asked]
    blended = [row["usd_per_m_blended_tok"] for row in found]
    assert blended == sorted(blended)


@pytest.mark.parametrize("words, said", [
    (("-g", "mi355x"), "give one, such as --gpu-price 2.5"),
    (("-g", "h100", "--gpu-price", "cheap"), "is not a price in USD such as 2.5/h"),
    (("-g", "h100", "--api-price", "in:1,on:2"), "write in:0.5,out:1.5"),
    (("-g", "h100", "--headroom", "20%", "-b", "4"), "leave out batch"),
])  # fmt: skip
def test_what_cannot_be_is_one_message(words, said):
    done = ask("cost", *CASE, *words)
    assert done.exit_code != 0
    assert said in " ".join((done.stderr or done.output).split())
