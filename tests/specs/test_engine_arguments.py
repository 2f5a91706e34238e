"""Arguments of the serving engines: which version knows which, how a value is read, and the tables that are shipped."""

import re

import pytest
from every_case import each

from roofline.catalog.find import engines_with_arguments, load_arguments
from roofline.specs.arguments import BINARY, LETTERS, SWITCHES, TYPES, Argument, Arguments
from roofline.specs.versions import place_of
from roofline.support.errors import BadInput, UnknownName

ENGINES = ("sglang", "trtllm", "vllm")
VALUES = Argument(
    "--dtype",
    "choice",
    choices=(("0.2.0", ("auto", "fp8")), ("0.10.0", ("auto", "fp8", "nvfp4"))),
    default=(("0.2.0", "auto"), ("0.9.0", None), ("0.10.0", "fp8")),
    since="0.2.0",
    until="0.11.0",
)
SIZE = Argument("--tensor-parallel-size", "int", aliases=("-tp",), least=1)
OLD = Argument("--num-scheduler-steps", "int", until="0.2.0")
NEW = Argument("--moe-backend", since="0.10.0")
TABLE = Arguments(
    "made-up",
    "Made-Up",
    ("0.2.0", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.0.0rc1"),
    {one.name: one for one in (VALUES, SIZE, OLD, NEW)},
)


# --- versions ------------------------------------------------------------------------------------


@each(
    "version, is_known",
    [("0.1.9", False), ("0.2.0", True), ("0.9.0", True), ("0.11.0", True), ("0.11.1", False), ("0.12.0", False)],
)
def test_an_argument_is_known_from_its_first_version_to_its_last(version, is_known):
    assert VALUES.is_known_to(version) is is_known


def test_an_argument_without_versions_is_known_to_all():
    assert SIZE.is_known_to("0.0.1")
    assert SIZE.is_known_to("99.0.0")


# 0.10 is newer than 0.9: versions are compared number by number, not as texts.
@each(
    "version, choices, default",
    [
        ("0.1.0", (), None),
        ("0.2.0", ("auto", "fp8"), "auto"),
        ("0.8.9", ("auto", "fp8"), "auto"),
        ("0.9.0", ("auto", "fp8"), None),
        ("0.10.0", ("auto", "fp8", "nvfp4"), "fp8"),
        ("0.11.0", ("auto", "fp8", "nvfp4"), "fp8"),
    ],
)
def test_choices_and_default_are_those_of_the_newest_entry_that_a_version_has_reached(version, choices, default):
    assert VALUES.choices_of(version) == choices
    assert VALUES.default_of(version) == default


@each(
    "asked, answered",
    [
        ("", "0.11.0"),  # the newest release: a candidate is none
        ("0.10", "0.10.0"),
        ("0.10.1", "0.10.0"),
        ("0.10.2", "0.10.2"),
        ("0.10.9", "0.10.2"),
        ("0.10.2.post1", "0.10.2"),
        ("0.2", "0.2.0"),
        ("1.0", "1.0.0rc1"),
        ("1.0.0rc1", "1.0.0rc1"),
    ],
)
def test_a_patch_release_has_the_arguments_of_the_last_one_read_before_it(asked, answered):
    assert TABLE.version_of(asked) == answered


@each("asked", ["0.3", "0.12.0", "2.0", "latest", "0.1", "10"])
def test_a_version_that_was_not_read_is_refused_with_those_that_were(asked):
    with pytest.raises(UnknownName) as refusal:
        TABLE.version_of(asked)
    assert asked in str(refusal.value)
    assert str(refusal.value).endswith("known versions: 0.2, 0.9, 0.10, 0.11, 1.0")


# --- names ---------------------------------------------------------------------------------------


@each("name", ["--tensor-parallel-size", "-tp"])
def test_an_argument_is_named_by_its_name_or_its_alias(name):
    assert TABLE.named(name, "0.9.0") is SIZE


@each(
    "name, version, said",
    [
        ("--tensor-paralel-size", "0.9.0", "did you mean --tensor-parallel-size"),
        ("--moe-backends", "0.11.0", "did you mean --moe-backend"),
        ("--moe-backend", "0.9.0", "versions from 0.10.0 on do"),
        ("--num-scheduler-steps", "0.9.0", "versions up to 0.2.0 do"),
        ("--dtype", "1.0.0rc1", "versions 0.2.0 to 0.11.0 do"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_or_with_the_versions_that_know_it(name, version, said):
    with pytest.raises(UnknownName) as refusal:
        TABLE.named(name, version)
    assert f"Made-Up {version} does not know {name}" in str(refusal.value)
    assert said in str(refusal.value)


def test_what_is_like_no_argument_has_no_suggestion():
    with pytest.raises(UnknownName) as refusal:
        TABLE.named("--zzz", "0.9.0")
    assert "did you mean" not in str(refusal.value)


def test_only_arguments_of_the_version_are_suggested():
    with pytest.raises(UnknownName) as refusal:
        TABLE.named("--num-scheduler-step", "0.9.0")
    assert "--num-scheduler-steps" not in str(refusal.value)


def test_the_beginning_of_a_name_or_an_alias_names_those_of_its_version():
    assert TABLE.beginning_with("--tensor", "0.9.0") == [SIZE]
    assert TABLE.beginning_with("-t", "0.9.0") == [SIZE]
    assert TABLE.beginning_with("--moe", "0.9.0") == []
    assert TABLE.beginning_with("--", "0.10.0") == [VALUES, SIZE, NEW]


# --- values --------------------------------------------------------------------------------------


# vLLM's human_readable_int: small letters are powers of 1000, capital ones powers of 1024.
@each(
    "human, text, number",
    [
        (LETTERS, "4096", 4096),
        (LETTERS, "-1", -1),
        (LETTERS, "32k", 32_000),
        (LETTERS, "32K", 32_768),
        (LETTERS, "25.6k", 25_600),
        (LETTERS, " 4k ", 4000),
        (LETTERS, "2m", 2_000_000),
        (LETTERS, "2M", 2_097_152),
        (LETTERS, "3g", 3_000_000_000),
        (LETTERS, "1G", 1_073_741_824),
        (LETTERS, "1t", 1_000_000_000_000),
        (LETTERS, "1T", 1_099_511_627_776),
        (LETTERS, "1.5t", 1_500_000_000_000),
        (LETTERS, "1.0005k", 1000),  # vLLM cuts off what is below one
        (BINARY, "4096", 4096),
        (BINARY, "32k", 32_000),
        (BINARY, "32Ki", 32_768),
        (BINARY, "2M", 2_000_000),
        (BINARY, "2Mi", 2_097_152),
        (BINARY, "1Gi", 1_073_741_824),
        ("", "32768", 32_768),
    ],
)
def test_numbers_with_suffixes_are_read_as_the_engine_reads_them(human, text, number):
    value = Argument("--max-model-len", "int", human=human).value(text, "0.1")
    assert value == number
    assert type(value) is int


@each(
    "human, text",
    [
        (LETTERS, "32Ki"),
        (LETTERS, "1.5K"),  # vLLM: no decimals with binary suffixes
        (LETTERS, "1.5"),
        (LETTERS, "4kk"),
        (LETTERS, "4 k"),
        (LETTERS, "k"),
        (LETTERS, "-4k"),
        (LETTERS, "1e3"),
        (LETTERS, "0x10"),
        (LETTERS, "9" * 400 + "k"),
        (LETTERS, "9" * 5000),
        (BINARY, "1.5Ki"),
        (BINARY, "32K"),
        (BINARY, "32m"),
        ("", "32k"),
        ("", "two"),
        ("", ""),
        ("", "2.0"),
        ("", "nan"),
    ],
)
def test_what_is_no_whole_number_is_refused_by_the_name_of_its_argument(human, text):
    with pytest.raises(BadInput, match=r"^--max-model-len '"):
        Argument("--max-model-len", "int", human=human).value(text, "0.1")


@each("text, number", [("0.9", 0.9), ("0", 0.0), ("1", 1.0), ("9e-1", 0.9)])
def test_a_share_is_read_with_its_bounds_included(text, number):
    assert Argument("--share", "float", least=0, most=1).value(text, "0.1") == number


@each(
    "text, said",
    [
        ("-0.001", "at least 0"),
        ("1.001", "at most 1"),
        ("inf", "at most 1"),
        ("-inf", "at least 0"),
        ("nan", "--share 'nan'"),
        ("90%", "is not a number"),
        ("", "is not a number"),
    ],
)
def test_a_share_beyond_its_bounds_is_refused_with_the_bound(text, said):
    with pytest.raises(BadInput, match=r"^--share ") as refusal:
        Argument("--share", "float", least=0, most=1).value(text, "0.1")
    assert said in str(refusal.value)


@each("text", ["inf", "-inf", "nan"])
def test_a_number_without_bounds_is_finite(text):
    with pytest.raises(BadInput, match="is not a finite number"):
        Argument("--share", "float").value(text, "0.1")


@each("text", ["0", "-1"])
def test_a_degree_below_one_is_refused(text):
    with pytest.raises(BadInput, match=f"--tensor-parallel-size '{text}' must be at least 1"):
        SIZE.value(text, "0.9.0")


def test_a_choice_is_one_of_those_of_the_version():
    assert VALUES.value("nvfp4", "0.10.0") == "nvfp4"
    with pytest.raises(BadInput, match=r"--dtype 'nvfp4' is not a value of version 0\.9\.0: auto, fp8$"):
        VALUES.value("nvfp4", "0.9.0")


def test_a_text_without_choices_is_kept_as_it_is():
    assert NEW.value("$(any) text", "0.10.0") == "$(any) text"


def test_json_is_read():
    value = Argument("--speculative-config", "json").value('{"method": "mtp", "num_speculative_tokens": 3}', "0.1")
    assert value == {"method": "mtp", "num_speculative_tokens": 3}


@each("text", ["", "{", "{'method': 'mtp'}", "[" * 50_000], ids=["empty", "open", "Python", "deep"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(BadInput, match="is not JSON"):
        Argument("--speculative-config", "json").value(text, "0.1")


# --- the tables that are shipped -----------------------------------------------------------------


def test_three_engines_have_a_table():
    assert engines_with_arguments() == ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_versions_of_a_table_are_in_order(engine):
    table = load_arguments(engine)
    places = list(map(place_of, table.versions))
    assert table.engine == engine
    assert places == sorted(set(places))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_cites_the_definitions_of_its_newest_version(engine):
    table = load_arguments(engine)
    assert table.source.startswith("https://github.com/")
    assert f"/v{table.versions[-1]}/" in table.source


@pytest.mark.parametrize("engine", ENGINES)
def test_every_version_that_a_table_names_was_read(engine):
    table = load_arguments(engine)
    for argument in table.arguments.values():
        named = {argument.since, argument.until} - {""}
        named |= {version for version, _ in (*argument.choices, *argument.default)}
        assert named <= set(table.versions), argument.name
        assert any(map(argument.is_known_to, table.versions)), argument.name


@pytest.mark.parametrize("engine", ENGINES)
def test_choices_and_defaults_of_a_table_begin_no_earlier_than_their_argument_and_are_in_order(engine):
    for argument in load_arguments(engine).arguments.values():
        for entries in (argument.choices, argument.default):
            places = [place_of(version) for version, _ in entries]
            assert places == sorted(set(places)), argument.name
            assert not argument.since or all(place >= place_of(argument.since) for place in places), argument.name
            assert not argument.until or all(place <= place_of(argument.until) for place in places), argument.name


@pytest.mark.parametrize("engine", ENGINES)
def test_no_name_or_alias_of_a_version_stands_for_two_arguments(engine):
    table = load_arguments(engine)
    for version in table.versions:
        known = [one for one in table.arguments.values() if one.is_known_to(version)]
        names = [name for one in known for name in (one.name, *one.aliases)]
        twice = {name for name in names if names.count(name) > 1} if len(names) > len(set(names)) else set()
        assert not twice, (version, twice)


@pytest.mark.parametrize("engine", ENGINES)
def test_names_are_options_of_a_shell_or_settings_of_a_file(engine):
    for argument in load_arguments(engine).arguments.values():
        assert re.fullmatch(r"--[a-z0-9][a-z0-9_-]*|[a-z0-9_]+(\.[a-z0-9_]+)*", argument.name), argument.name
        assert all(re.fullmatch(r"--?[A-Za-z0-9][a-z0-9_-]*", alias) for alias in argument.aliases), argument.aliases


@pytest.mark.parametrize("engine", ENGINES)
def test_every_argument_has_a_type_that_is_read_and_bounds_in_order(engine):
    for argument in load_arguments(engine).arguments.values():
        assert argument.type in TYPES, argument.name
        assert argument.human in ("", LETTERS, BINARY), argument.name
        assert not argument.human or argument.type == "int", argument.name
        bounds = [bound for bound in (argument.least, argument.most) if bound is not None]
        assert bounds == sorted(bounds), argument.name
        assert not bounds or argument.type in ("int", "float"), argument.name
        assert not argument.choices or argument.type not in SWITCHES, argument.name


@pytest.mark.parametrize("engine", ENGINES)
def test_every_default_is_a_value_that_its_version_takes(engine):
    for argument in load_arguments(engine).arguments.values():
        for version, default in argument.default:
            if default is None:
                continue
            if argument.type in SWITCHES:
                assert type(default) is bool, argument.name
            elif argument.type != "list":
                assert argument.value(str(default), version) == default, (argument.name, version)


# Of the engines' own documentation, by version.
@each(
    "engine, name, version, default",
    [
        ("vllm", "--tensor-parallel-size", "0.8.5", 1),
        ("vllm", "--gpu-memory-utilization", "0.19.0", 0.9),
        ("vllm", "--gpu-memory-utilization", "0.20.0", 0.92),
        ("sglang", "--tp-size", "0.5.6", 1),
        ("trtllm", "--max_batch_size", "1.0.0", 2048),
        ("trtllm", "--max_num_tokens", "1.2.1", 8192),
        ("trtllm", "--kv_cache_free_gpu_memory_fraction", "1.0.0", 0.9),
    ],
)
def test_defaults_are_those_of_the_engines(engine, name, version, default):
    assert load_arguments(engine).named(name, version).default_of(version) == default


@each(
    "engine, alias, name",
    [
        ("vllm", "-tp", "--tensor-parallel-size"),
        ("vllm", "-pp", "--pipeline-parallel-size"),
        ("vllm", "-dp", "--data-parallel-size"),
        ("vllm", "-q", "--quantization"),
        ("sglang", "--tensor-parallel-size", "--tp-size"),
        ("sglang", "--ep", "--ep-size"),
        ("trtllm", "--tensor_parallel_size", "--tp_size"),
    ],
)
def test_aliases_are_those_of_the_engines(engine, alias, name):
    table = load_arguments(engine)
    assert table.named(alias, table.version_of("")).name == name
