"""What every command refuses beside tests/cli/test_mistakes.py: the exit code, one message, no answer."""

import math
import shlex

import pytest
from cli.asking import ask
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.cli.screen import refusal_words
from roofline.questions.inputs import options

M, CASE = "-m llama-3.1-8b", "-m llama-3.1-8b -g h100"
LIMITS = f"{CASE} --slo ttft:150,tpot:15@p99"
POOLS = f"disaggregate {M} --request-rate 5 --prefill h100 --decode h100"
#: Command line, and what its message says: what is wrong with the case (exit code 1).
INPUT = [
    # names and formats
    (f"ttft {M} -g h100 -g b2000", "GPU 'b2000'; did you mean b200"),
    (f"ttft {CASE} --weights fp9", "'fp9'; did you mean fp8"),
    (f"ttft {CASE} --compute fp5", "'fp5'"),
    (f"ttft {CASE} --workload k1k", "workload 'k1k'; did you mean"),
    (f"ttft {CASE} --routing even", "'even'"),
    (f"ttft {CASE} --engine no-such-file.yaml", "no-such-file.yaml:1: cannot be read"),
    (f"predict {CASE} --workload ./none.yaml", "none.yaml"),
    ("workloads chatt", "workload 'chatt'; did you mean chat"),
    (f"sweep {CASE} -q bf16,fp9", "fp9"),
    (f"size {LIMITS} -q bf16 -q fp9", "'fp9'; did you mean fp8"),
    (f"compare {CASE},b200,h999", "GPU 'h999'; did you mean"),
    (f"compare {CASE},b200,b200", "named twice"),
    (f"compare {CASE},b200 --tp 3", "--tp 3 does not divide"),
    (f"quantize {M} -g rubin-cpx", "no 16-bit peak"),
    ("sensitivity -m lama -g h100", "model 'lama'; did you mean"),
    ("gpus --vendor acme", "no GPU has vendor 'acme'; choose from AMD"),
    ("gpus --generation maxwell", "choose from ada"),
    ("gpus --status sold", "shipping"),
    ("models --family bert", "no model has family 'bert'; choose from "),
    ("models --min-size 8B --max-size 7B", "exceed"),
    ("gpus --specs no-such-folder", "no-such-folder: "),
    ("models --specs no-such-folder", "no-such-folder: "),
    # numbers
    (f"ttft {CASE} --batch -4", "--batch -4 must be at least 1"),
    (f"ttft {CASE} -c 0", "--concurrency 0 must be at least 1"),
    (f"ttft {CASE} --rate 0", "--request-rate 0 must be above 0 requests/s"),
    (f"ttft {CASE} --max-num-seqs 0", "--max-num-seqs 0 must be a whole number of sequences, at least 1"),
    (f"ttft {CASE} --max-num-batched-tokens -1", "--max-num-batched-tokens -1 must be"),
    (f"ttft {CASE} --gpu-memory-utilization 92", "--gpu-memory-utilization 92 must be a share"),
    (f"ttft {CASE} --max-model-len 1000", "isl + osl = 1152 tokens exceed --max-model-len 1000"),
    (f"ttft {CASE} --measured batch=8", "must give ttft or tpot"),
    (f"ttft {CASE} --measured tpot=0", "measured tpot = 0"),
    (f"ttft {CASE} --measured ttft=1", "hardware limit of 1"),
    (f"quantize {CASE} --batch {'9' * 30}", "--batch 1e+30 must"),
    (f"predict {CASE} --derate bandwith:5%", "rate 'bandwith' to derate; choose from bandwidth, peak"),
    (f"predict {CASE} --derate bandwidth:5", "derate bandwidth = 5"),
    (f"predict {CASE} --derate bandwidth", "share such as"),
    # loads, limits, pools
    (f"ttft {CASE} -b 4 --rate 1", "a case has one load"),
    (f"ttft {CASE} --num-prompts 40 -b 4", "--num-prompts counts the requests of users"),
    (f"ttft {CASE} -c 8 --num-prompts 4", "--num-prompts 4"),
    (f"predict {CASE} --isl-cv 0.5", "give --concurrency or --request-rate"),
    (f"predict {CASE} --rate 4 --isl-cv -1", "--isl-cv -1"),
    (f"predict {CASE} --rate 4 --isl-cv 0.9 --lengths uniform", "between 0 and 0.577"),
    (f"predict {CASE} --rate 4 --lengths gauss", "'gauss'; choose from lognormal, uniform"),
    (f"predict {CASE} --rate 4 --lengths none.csv", "none.csv"),
    (f"predict {CASE} --rate 4 --cold-start 1%", "must be a share and a time, such as 1%:2s"),
    (f"predict {CASE} -c 8 --num-prompts 80 --slo ttft:300@p95", "percentiles need a steady state"),
    (f"levers {CASE} --request-rate 2 --for goodput", "goodput needs an SLO"),
    (f"{POOLS}:tp4x0", "decode pool: 'h100:tp4x0' has no GPUs"),
    (f"{POOLS} --request-rate 500", "the prefill pool answers at most"),
    (f"cost {CASE} --headroom 20% -b 4", "leave out batch"),
    (f"curve {CASE} -o curve", ".svg"),
    (f"pareto {CASE} --tp 1 -b 1 -o frontier", ".svg"),
    (f"pareto {CASE} --x util", "no better side"),
]
#: The same of how a command is used (exit code 2).
USAGE = [
    ("formula ttft -m llama-3.1-8b", "one GPU"),
    (f"formula ttft {CASE} -g b200", "one GPU"),
    (f"levers {CASE} -g b200 --request-rate 2", "one GPU"),
    (f"compare {M}", "two GPUs or more"),
    (f"compare {CASE},b200 -m qwen3-32b", "one model"),
    (f"compare {CASE},b200 --explain -f csv", "no CSV form"),
    (f"quantize {M}", "one model and one GPU"),
    (f"quantize {CASE} --explain -f csv", "no CSV form"),
    (f"solve {CASE} --ttft 300ms", "--for"),
    (f"solve {CASE} --for batch --ttft fast", "'fast' is not a time"),
    (f"solve {CASE} --for batch --ttft -3", "must be positive and finite"),
    (f"solve {CASE} --for batch --ttft 1{'0' * 400}", "must be positive and finite"),
    (f"ttft {CASE} --request-rate 4 --seed 3", "add --simulate"),
    (f"sweep {CASE} --isl 1e3", "not a whole number"),
    (f"sweep {CASE} --isl 500,", "not a whole number"),
    (f"sweep {CASE} -q bf16,", "empty word"),
    (f"goodput {M} -g h100 --workload batch", "goodput needs"),
    (f"goodput {LIMITS} --share 100%", "share = '100%' must"),
    (f"goodput {LIMITS} --share -1", "between 0 and 1"),
    (f"goodput {CASE} --slo ttft:300@p0", "p0 is not a percentile"),
    (f"goodput {CASE} --p99-within 1x", "of the median"),
    (f"predict {CASE} --workload chat --isl 5", "--workload sets both lengths"),
    (f"cost {CASE} --gpu-price cheap", "is not a price in USD such as 2.5/h"),
    (f"curve {CASE} --against batch", "'batch' is not one of"),
    *[(f"models --min-size '{size}'", "such as 7B") for size in ("", "big", "-7B", "7GB", "0", "1e9")],
    *[(f"{name} {words}", "Error: ") for name in ("gpus", "models") for words in ("show", "show a b", "--everything")],
    *[(f"{name} -f xml", "'xml' is not one of") for name in ("gpus", "models", "ttft", "check x.json")],
    *[(f"check x.json {words}", "Invalid value") for words in ("--statistic p90", "--tp two", "--basis real")],
    ("gpus --vendor amd show h100", "Error: "),
    ("models --moe show qwen3-32b", "Error: "),
    ("check-specs a b", "Error: "),
    ("check-specs --all", "Error: "),
    ("ttft --isl 2000", "'-m'"),
    (f"ttft {CASE} --isle 2000", "--isl"),
    (f"ttft {CASE} --isl", "--isl"),
    (f"ttft {CASE} --batch 4 --simulate", "--concurrency or --request-rate"),
]
#: Option -> texts that it does not read.
UNREADABLE = {
    "isl": ("2e3", "many", ""), "batch": ("1.5",), "concurrency": ("many",), "request-rate": ("",),
    "max-num-seqs": ("1.5",), "tp": ("two",), "basis": ("best",), "network": ("far", "", "-20"),
    "measured": ("", "tpot", "tpot:12", "tpot=fast", "tpot=12,tpot=13", "e2el=12"), "p99-within": ("0.5x",),
    "prefix": ("most", "nan", "120%", "-5%", "nan%", "%", "80%%"),
    "slo": ("ttft", "ttft:", "ttft:fast", "ttft:-5", "ttft:300@p100", "300", "", "ttft:300,", "ttft:300,ttft:200"),
    "workload": ("1k", "2000", "1234", "11k", "1k1k1k", "1g1k", "1.3x1", "9" * 400 + "k1k", "-1k1k", ""),
    "workload=1k1k --isl": ("1024",), "workload=1k1k --osl": ("1024",),
}  # fmt: skip


def assert_refused(line, code, said=""):
    result = ask(*shlex.split(line))
    assert (result.exit_code, result.stdout, result.stderr.count("Error: ")) == (code, "", 1)
    message = " ".join(result.stderr.split())
    assert said in message
    assert code == 2 or message.startswith("Error: ")


@each("line, said", INPUT)
def test_what_is_wrong_with_a_case_is_one_message_and_exit_code_1(line, said):
    assert_refused(line, 1, said)


@each("line, said", USAGE)
def test_a_wrong_use_is_one_message_and_exit_code_2(line, said):
    assert_refused(line, 2, said)


@each("option, text", [(option, text) for option, texts in UNREADABLE.items() for text in texts])
def test_a_text_that_an_option_does_not_read_is_a_wrong_use(option, text):
    assert_refused(f"ttft {CASE} --{option} {shlex.quote(text)}", 2)


@each("stated", [
    {"isl": 0}, {"batch": -4}, {"tp": 3}, {"ep": 2}, {"prefix": 2000}, {"request_rate": 900}, {"concurrency": 0},
    {"max_model_len": 512}, {"routing": "even"}, {"engine": "vllm2"}, {"cold_start": "1%"},
])  # fmt: skip
def test_the_shell_refuses_as_python_does(stated):
    with pytest.raises(rl.RooflineError) as error:
        rl.predict("llama-3.1-8b", "h100", **stated)
    words = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in stated.items())
    said = ask(*shlex.split(f"predict {CASE} {words}")).stderr.removeprefix("Error: ")
    assert said.partition(";")[0].strip() == refusal_words(str(error.value)).partition(";")[0]


REFUSING = [name for name in cli.list_commands(None) if name in options.QUESTIONS and options.QUESTIONS[name].refused]


@each("name", REFUSING)
def test_a_command_has_no_use_for_an_option_and_says_why_or_does_not_know_it(name):
    for option, why in options.QUESTIONS[name].refused.items():
        result = ask(name, f"--{option.replace('_', '-')}=1")
        assert (result.exit_code, result.stdout) == (2, "")
        said = " ".join(result.stderr.split())
        assert why.split("`")[0] in said or "No such option" in said or "does not take a value" in said, said


SLO, RATE = {"slo": "tpot:25"}, {"request_rate": 2}
#: Questions about one case, each asked of a model and a GPU.
ABOUT = {
    "size": lambda model, gpu, **case: rl.size(model, gpu, **SLO, **case),
    "goodput": lambda model, gpu, **case: rl.goodput(model, gpu, **SLO, **case),
    "curve": rl.curve,
    "pareto": rl.pareto,
    "cost": rl.cost,
    "compare": lambda model, gpu, **case: rl.compare(model, [gpu, "h200"], **case),
    "quantize": rl.quantize,
    "sensitivity": rl.sensitivity,
    "solve": lambda model, gpu, **case: rl.solve(model, gpu, "bandwidth", tpot=0.1, **case),
    "formula": lambda model, gpu, **case: rl.formula(model, gpu, "tpot", **case),
    "levers": lambda model, gpu, **case: rl.levers(model, gpu, **RATE, **case),
    "prompt_cache": lambda model, gpu, **case: rl.prompt_cache(model, gpu, prefix=100, **case),
    "simulate": lambda model, gpu, **case: rl.simulate(model, gpu, **RATE, **case),
    "disaggregate": lambda model, gpu, **case: rl.disaggregate(model, gpu, "h100", **RATE, **case),
}


@each("question", ABOUT)
def test_every_question_refuses_unknown_names_and_what_is_no_single_case(question):
    about = ABOUT[question]
    for model, gpu in (("lama-3", "h100"), ("llama-3.1-8b", "h1000")):
        with pytest.raises(rl.UnknownName, match=r"'lama-3'|'h1000'"):
            about(model, gpu)
    lists = () if question in ("size", "goodput", "cost") else ({"isl": [1000, 2000]},)  # the others have no rows
    wrong = (*lists, {"isl": 0}, {"isl": 1e300}, {"tp": 3}, {"osl": math.nan}, {"basis": "hoped"})
    for case in wrong:
        with pytest.raises(rl.BadInput, match=rf"{next(iter(case))}|lengths|one case") as error:
            about("llama-3.1-8b", "h100", **case)
        assert "\n" not in str(error.value)
