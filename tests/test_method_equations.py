"""The equations of docs/method/equations.md: all of the tool's, from the functions, and current."""

import ast
import importlib.util
import math
import re
import sys
from functools import partial
from pathlib import Path
from zlib import crc32

from every_case import each
from source_trees import tree

import roofline

ROOT = Path(__file__).parents[1]
PACKAGE = Path(roofline.__file__).parent
MODULES = [
    *sorted((PACKAGE / "physics").rglob("*.py")),
    *(
        PACKAGE / "serving" / f"{name}.py"
        for name in ("latency", "prompts", "phases", "knee", "verdict", "prediction", "cost", "capacity", "energy")
    ),
    *(
        PACKAGE / "serving" / "load" / f"{name}.py"
        for name in ("server", "rounds", "equations", "mixtures", "gaps", "tails", "limits", "joint")
    ),
]
#: Classes whose public methods are formulas, too.
CLASSES = ("Server",)
#: What a function returns that is a number, or made of numbers.
QUANTITIES = (
    "Real", "float", "Work", "Terms", "Memory", "ParameterCount", "LinkRoof", "Pass", "State",
    "StepParts", "PromptTimes", "Prompt", "Meeting", "Saturation", "Served", "Component", "Tails", "Lengths", "Goodput",
    "LinkWait",
)  # fmt: skip
#: Functions that return such things and have no equation of their own, each with the reason.
EXCLUDED = {
    "physics/memory.py: kv_bytes_per_token": "cache_bytes of one token, summed over the layers",
    "physics/memory.py: kv_growth_per_token": "the difference of cache_bytes at two lengths",
    "physics/memory.py: state_bytes_per_sequence": "cache_bytes of no token, summed over the layers",
    "physics/memory.py: entry_parameters": "those of physics/assembly.py for the whole model, by section",
    "physics/memory.py: ngram_table_bytes": "the tables of ngram_parameters times row_nbytes",
    "physics/memory.py: redundant_bytes": "a share of the experts' bytes: its docstring has it",
    "physics/layers/networks.py: heaviest_copy": "a maximum over shares of the experts: its docstring has it",
    "physics/exchange.py: exchange_roof": "a time as work and roof: its docstring has it",
    "physics/context.py: split_work": "shares of the fields of a Work: docs/method/context.md",
    "physics/context.py: shard_work": "shares of the fields of a Work: docs/method/context.md",
    "physics/context.py: decode_tp": "a choice: tp, or tp over dcp",
    "physics/context.py: of_prompt": "a choice: the work, or split_work of it",
    "physics/context.py: of_shard": "a choice: the work, or shard_work of it",
    "physics/layers/attention.py: own_scores": "a choice: the work, or split_work of it",
    "physics/encoders.py: encoder_time": "a sum of times of kernels",
    "physics/encoders.py: encoder_bytes": "a sum over the towers: its docstring has it",
    "physics/encoders.py: encoder_workspace": "the most of what the towers need: its docstring has it",
    "physics/power.py: demand_parts": "shares in power_share, which shows them",
    "serving/energy.py: power_limit": "a figure of the GPU, times a share",
    "physics/passes.py: dynamic_energy": "a sum over kernels: docs/method/power.md",
    "physics/passes.py: draft_pass": "a list of kernels, whose equations are there",
    "serving/load/server.py: Server.steps_of": "steps_of_answer of serving/latency.py",
    "serving/load/server.py: Server.beside": "Server.linear without a prompt, or that part of Server.decode",
    "serving/knee.py: ridge_surplus": "the difference whose root ridge_knee is, shown there",
    "serving/knee.py: asymptotic_time": "the slope D_1 of half_knee, a whole pass at a huge batch",
    "serving/knee.py: half_surplus": "the difference whose root half_knee is, shown there",
    "serving/knee.py: slo_knee": "a search: largest_that_holds",
    "serving/knee.py: least_enough": "a choice among degrees, in words in docs/method.md",
    "serving/load/server.py: Server.steps": "steps_of_answer of the mean answer, at least one",
    "serving/latency.py: prefill_of_kinds": "prefill of hits alone, and of misses alone",
    "serving/prompts.py: prefix_bytes": "kv_bytes_per_sequence of the prefix",
    "serving/prompts.py: tier_bandwidth": "a figure of the GPU, or of the case",
    "serving/prompts.py: hit_rate": "as it is given, or one of the two that follow",
    "serving/prompts.py: uniform_hit_rate": "of floats alone: its docstring has it",
    "serving/prompts.py: lru_hit_rate": 'a root of a sum: "A prompt cache" in docs/method.md has it',
    "serving/phases.py: cached_time": "times of prompts with and without their cached tokens, less each other",
    "serving/load/server.py: Server.computed": "computed of serving/latency.py, mean over hits and misses",
    "serving/load/server.py: Server.fresh": "computed of serving/latency.py, of its prompt",
    "serving/load/server.py: Server.loading": "load_time, mean over hits and misses",
    "serving/load/server.py: prompt_tokens": "a share of what is beyond the prefix, and a prefix that misses",
    "serving/load/limits.py: burst_tails": "two points: prefill_of_kinds",
    "physics/memory.py: kept_bytes": "cache_bytes, of a window or of a share of the sequence",
    "physics/memory.py: largest_of": "largest_batch, from what the layers hold",
    "physics/memory.py: memory_of": "memory, from what the layers hold",
    "physics/memory.py: start_up_of": "start_up_memory, from what the layers hold",
    "physics/adapters.py: adapter_bytes": "a sum over the matrices of a stage, in its docstring",
    "physics/memory.py: offloadable_bytes": "stage_bytes of its layers alone, or of their experts",
    "physics/memory.py: offloaded_bytes": "the smaller of offloadable_bytes and what is asked for",
    "physics/offload.py: host_roof": "a figure of the GPU, or of the case",
    "physics/offload.py: read_from_host": "collective_time of the bytes that its docstring has",
    "physics/memory.py: mixer_count": "stage_parameters, of one mixer",
    "physics/memory.py: network_count": "stage_parameters, of one network",
    "physics/memory.py: stage_bytes": "weight_bytes, of one stage",
    "physics/memory.py: token_bytes": "activation_bytes, of one token",
    "physics/memory.py: padding_bytes": "experts that kernels pad: their bytes times a factor less one",
    "physics/memory.py: padding_factor": "whole multiples of a width, over the width",
    "serving/knee.py: knees_of_steps": "ridge_knee, half_knee and largest_batch together",
    "serving/verdict.py: kernel_sigma": "a number of the calibration, or an assumed one",
    "serving/latency.py: chunk_of": "prompt_chunk: its lengths",
    "serving/latency.py: averaged_steps": "decode: its steps",
    "serving/knee.py: held_at_once": "memory_of: its batch and length",
    "serving/verdict.py: variance_of_groups": "pass_sigma, without what is beyond the kernels",
    "serving/verdict.py: ends_of_percentile": "a quotient of two times",
    "serving/verdict.py: best_of": "a time, scaled like a percentile below the mean",
    "serving/load/server.py: times_of_chunks": "sums of times of kernels",
    "serving/load/server.py: Server.budget": "a setting of the engine",
    "serving/load/server.py: Server.decode": "parts of Server.decode_pass; of dp ranks, a line",
    "serving/load/server.py: prompt_of": "Server.prompt of the mean prompt, or its mean over nodes of the lengths",
    "serving/load/server.py: attention_time": "prefill_pass of a chunk, without what is shared",
    "serving/load/rounds.py: second_moment": "mean over prompts of the square of added_by_node",
    "serving/load/rounds.py: share_of_single_tokens": "a sum of weights of the slices of the answers",
    "serving/load/rounds.py: over_all_answers": "over_answers, with as many lengths as the distributions have",
    "serving/load/equations.py: slot_wait": 'a sum over all slots: its docstring and "Slots" in docs/method.md have it',
    "serving/load/mixtures.py: by_prompt_length": "merged, of some groups of the prompts",
    "serving/load/mixtures.py: percentile": "a search: the root of survival less the share that is left",
    "serving/load/mixtures.py: mean_of": "a sum over components: least plus mean, by their weights",
    "serving/load/tails.py: latency_percentile": 'percentile, where it agrees with the mean: "Tails"',
    "serving/load/tails.py: decode_tails": "tails of a rank without prompts",
    "serving/load/tails.py: tails_at_random": 'distributions: "Tails" in docs/method.md has them equation by equation',
    "serving/load/gaps.py: gaps": 'distributions: "Gaps between tokens" in docs/method.md has them',
    "serving/latency.py: mean_gap": "a quotient of two means; the TPOT times tau where answers are equal",
    "serving/latency.py: mean_steps": "steps_of_answer, mean over nodes of the lengths",
    "serving/cost.py: token_bill": 'prices of tokens times their number, summed; "Cost" has it',
    "serving/latency.py: lengths_by_law": "nodes and weights of Gauss, and quantiles of a law",
    "serving/latency.py: lengths_of_rows": "sums over the rows of a trace",
    "serving/load/limits.py: limited_latencies": "latencies of other functions, by the keys of limits",
    "serving/load/limits.py: of_tails": "a percentile, by the key of a limit",
    "serving/load/limits.py: equal_steps": "osl - 1, or nothing",
    "serving/load/limits.py: latency_over_requests": "a mean, a percentile, or the ratio of two percentiles",
    "serving/load/limits.py: limit_shares": "latencies of other functions over their limits",
    "serving/load/limits.py: least_shares": "limit_shares, with the mean for a percentile that is not known",
    "serving/load/limits.py: excess": "the largest of limit_shares",
    "serving/load/joint.py: share_within": "survival, with single tokens that have no TPOT; of floats alone",
    "serving/load/joint.py: joint_share": 'of floats alone: "Goodput" in docs/method.md has it',
    "serving/capacity.py: attained": 'joint_share: "Goodput" in docs/method.md',
    "serving/capacity.py: largest_rate": "a search: the root of the largest latency over its limit, less one",
    "serving/capacity.py: pool_goodput": "the search of largest_rate, for two pools",
    "serving/capacity.py: pool_latencies": "latencies of other functions, by the keys of limits",
    "serving/capacity.py: crossovers": "searches: where two largest rates are equal",
    "serving/knee.py: longest_context": "a search: crossing, rounded down",
    "serving/knee.py: tp_faults": "conditions, with a message for each",
    "serving/knee.py: expert_faults": "conditions, with a message for each",
    "serving/verdict.py: ends_of_gaps": 'two percentiles: "Intervals" in docs/method.md has them',
    "serving/verdict.py: beyond": "conditions, with a warning for each",
    "serving/verdict.py: unchecked": "conditions, with words for each",
    "serving/verdict.py: unanswered": "conditions, with words for each",
    "serving/verdict.py: stated_sigma": "kernel_sigma, over the share of a residual that shapes have in common",
    "serving/verdict.py: served_sigma": "a number of the calibration, or zero",
    "serving/verdict.py: remaining_share": "a number of the profile, or one",
    "serving/load/equations.py: outside": "conditions, with a warning for each",
    "serving/load/equations.py: capacity": "saturation, or slots, of all ranks",
    "serving/load/equations.py: served_by_formulas": "served, without a program",
    "serving/load/tails.py: tails_by_formulas": "tails, without a program",
    "serving/load/equations.py: served_at_random": 'a fixed point of meeting: "A server under load"',
    "serving/latency.py: request_passes": "prefill and decode, at a batch of one and at Served.batch",
}


def load_builder():
    spec = importlib.util.spec_from_file_location("build_method", ROOT / "docs" / "build_method.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_method"] = module  # its dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


builder = load_builder()
FORMULAS = {formula.home: formula for formula in builder.formulas()}
#: Sizes at which both sides of a choice occur: products of a rate and a time near one, more experts than are chosen.
SIZES = {
    "rate": 1.5, "added": 0.2, "decode_step": 0.03, "loading": 0.1, "mean": 0.3, "each": 0.2, "alone": 0.3,
    "before": 0.1, "arrival": 0.05, "others": 4.0, "users": 6.0, "budget": 8.0, "experts": 128.0, "top_k": 8.0,
    "c": 0.66, "waiting_share": 0.001, "gpu_memory_utilization": 0.6, "isl": 4.0, "max_num_seqs": 9.0,
    "largest_batch": 9.0, "memory": 1e6, "weight_bytes": 1e5, "token_bytes": 30.0, "osl": 1.0, "z": 0.3,
    "tiny": 0.01, "variance": 0.1,
}  # fmt: skip
DRAWS, SPREADS = 24, (0.2, 1.0, 2.0)  # numbers tried, and decades on either side of a size


def formulas_of_the_code():
    for path in MODULES:
        classes = [node for node in tree(path).body if isinstance(node, ast.ClassDef) and node.name in CLASSES]
        for place, nodes in (("", tree(path).body), *((f"{node.name}.", node.body) for node in classes)):
            for node in nodes:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    returns = {part.id for part in ast.walk(node.returns) if isinstance(part, ast.Name)}
                    if returns & set(QUANTITIES) or ".. math::" in (ast.get_docstring(node) or ""):
                        yield f"{path.relative_to(PACKAGE).as_posix()}: {place}{node.name}"


def numbers(case, draw):
    """A number for every symbol, and for a function of which the name alone is known: any, as both sides take it."""
    fixed = {"e": math.e, **case.values}

    def number(name, *arguments):
        if name in fixed:
            return fixed[name]
        size = SIZES.get(name, 1.0 + sum(map(ord, name)) % 7)
        size *= 10.0 ** (SPREADS[draw % 3] * (crc32(f"{draw} {name}".encode()) / 2.0**31 - 1.0))
        if name in ("ep", "pp", "loaded"):  # with one of them there is nothing to share, and no equation
            return 1.0 + size
        shares = (value / (place + 2.0 + abs(value)) for place, value in enumerate(arguments) if value < math.inf)
        return size * (1.0 + sum(shares))

    return number


def value(equation, known, number):
    """Value of a printed equation: a product has no sign, `x^y` is a power, a name with arguments a function."""
    functions = {"max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt}
    symbols = {"inf": math.inf} | known
    names = {
        "function": lambda name: functions.get(name) or partial(number, name),
        "symbol": lambda name: symbols[name] if name in symbols else number(name),
    }
    python = re.sub(r"(?<=[\w)]) (?!if\b|else\b)(?=[\w(])(?<!\bif )(?<!\belse )", "*", equation).replace("^", "**")
    python = re.sub(r"\b([a-z_]\w*)\(", r"function('\1')(", python)
    python = re.sub(r"(?<!')\b(?!if\b|else\b|function\b)[A-Za-z]\w*\b(?!')", r"symbol('\g<0>')", python)
    return float(eval(python, names))  # of the repository's own page


def test_the_page_is_current_and_has_every_formula_of_the_code():
    wanted = set(formulas_of_the_code())
    missing = wanted - FORMULAS.keys() - EXCLUDED.keys()
    assert not missing, f"add to docs/build_method.py: {', '.join(sorted(missing))}"
    assert not EXCLUDED.keys() & FORMULAS.keys()
    assert EXCLUDED.keys() <= wanted
    assert builder.PAGE.read_text(encoding="utf-8") == builder.page(), "run: python docs/build_method.py"


@each("home", FORMULAS)
def test_every_formula_has_its_equation_and_its_source_on_the_page(home):
    formula = FORMULAS[home]
    page = builder.PAGE.read_text(encoding="utf-8").partition(builder.START)[2].partition(builder.END)[0]
    chapter = page.partition(f"## `{formula.path}`\n")[2].partition("\n## ")[0]
    equations, _, remarks = chapter.partition("\n* ")
    assert re.search(rf"^    {formula.name} .*= ", equations, re.MULTILINE)
    (remark,) = [entry for entry in remarks.split("\n* ") if f"`{formula.name}`" in entry.partition(": ")[0]]
    assert "*Source:*" in remark


@each("path", builder.NOTES)
def test_what_a_note_explains_is_in_its_chapter(path):
    page = builder.page().partition(f"## `{path}.py`\n")[2].partition("\n## ")[0]
    equations = " ".join(line for line in page.partition("\n* ")[0].splitlines() if line.startswith("    "))
    names = set(re.findall(r"`([a-z_]+)(?:\.\.\.)?`", builder.NOTES[path])) - builder.LETTERS.keys()
    assert names
    assert [name for name in names if not re.search(rf"\b{name}", equations)] == []


@each("home", FORMULAS)
def test_equations_at_numbers_are_the_function_at_those_numbers(home):
    """As printed: read back from the text, in which names of earlier equations stand for what they are."""
    formula = FORMULAS[home]
    for case, equations in zip(formula.cases, builder.equations(formula), strict=True):
        for draw in range(DRAWS):
            number, known = numbers(case, draw), {}
            results, _ = builder.called(formula, case, builder.Letters(case, number))
            for left, equation in equations.items():
                known[left] = value(equation, known, number)
            for left, there in results.items():
                shown = formula.name if left == "" not in equations else left
                here = known[shown] if shown in known else number(shown)  # a symbol as it is has no equation
                assert math.isclose(here, there, rel_tol=1e-12), f"{shown} in {equations}"
