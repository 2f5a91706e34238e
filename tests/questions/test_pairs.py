"""Public pairs of results before and after a change, the settings that results state, and versions known to be slow."""

import json
from functools import cache
from pathlib import Path

import pytest
import tiers

import roofline as rl
from roofline.measurements.settings import SETTINGS, differences, settings_of
from roofline.questions.diagnosis import CAUSES, NOTHING, UNCLEAR
from roofline.questions.slow_versions import SLOW_VERSIONS

FOLDER = Path(__file__).parents[1] / "fixtures" / "pairs"
pytestmark = pytest.mark.usefixtures("_figures_predicted_once")
PAIRS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
COUNTED = [name for name, pair in PAIRS.items() if not pair["held_out"]]
#: Counted pairs that are right: with the settings that a thread states, and without them.
RIGHT, RIGHT_UNSTATED = 11, 5
TABLE = Path(__file__).parents[2] / "docs" / "pairs.md"


def answer(pair, *, is_stated=True):
    settings = pair["settings"] if is_stated else {"before": {}, "after": {}}
    return rl.check(*([{**run, **settings[side]} for run in pair[side]] for side in ("before", "after"))).changed


@pytest.fixture(name="answers", scope="module")
def fixture_answers():
    """What is answered of a pair, by its name, with what the thread states and without it; each asked once."""

    @cache
    def of(name, is_stated):
        pair = PAIRS[name]
        if not is_stated and not any(pair["settings"].values()):
            return of(name, True)  # a thread that states nothing asks the same question
        return answer(pair, is_stated=is_stated)

    return of


@tiers.has_more_cases
@pytest.mark.parametrize(("is_stated", "least"), [(True, RIGHT), (False, RIGHT_UNSTATED)])
def test_the_part_is_right_as_often_as_reported_and_never_named_wrongly(answers, is_stated, least):
    names = tiers.some(COUNTED, 4)
    verdicts = {name: (PAIRS[name]["verdict"], answers(name, is_stated).answer) for name in names}
    wrong = {name: pair for name, pair in verdicts.items() if pair[1] not in (pair[0], UNCLEAR)}
    assert wrong == {}
    others = len(COUNTED) - len(names)
    assert sum(truth == told for truth, told in verdicts.values()) >= least - others


@tiers.has_more_cases
def test_the_page_says_what_is_answered(answers):
    text = TABLE.read_text(encoding="utf-8")
    for name in tiers.some(PAIRS, 3):
        pair, told = PAIRS[name], f"| {answers(name, True).answer} | {answers(name, False).answer} |"
        assert any(pair["source"] in line and told in line for line in text.splitlines()), name


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_has_its_source_and_a_verdict_of_ours(name):
    pair = PAIRS[name]
    assert pair["source"].startswith("https://")
    assert pair["verdict"] in (*CAUSES, NOTHING)
    assert pair["why"]
    assert pair["setup"]


def test_a_hit_rate_and_a_limit_are_found_at_their_size(answers):
    """The server counted 66.5 % of the prompts in its cache, and had 2 slots."""
    assert "about 60 %" in answers("vllm-prefix-cache-gb10", True).best.text
    assert "about 2.6" in answers("vllm-slots-gb10", True).best.text


LOAD = {"isl": 1000, "osl": 200, "max_concurrency": 1}
SERVER = {**LOAD, "model_id": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "engine": "vllm"}


def timed(tpot, **settings):
    return {**SERVER, "mean_ttft_ms": 36.0, "mean_tpot_ms": tpot, **settings}


def test_a_stated_setting_names_its_part():
    found = rl.check(timed(20.0, enforce_eager=True), timed(7.0, enforce_eager=False)).changed
    assert found.answer == "host"
    assert "stated: enforce eager true, then false" in found.text
    assert "enforce eager true, then false" in found.known


def test_a_setting_that_cannot_have_made_it_faster_names_nothing():
    assert rl.check(timed(20.0, enforce_eager=False), timed(7.0, enforce_eager=True)).changed.answer == UNCLEAR


def test_a_setting_of_another_part_than_the_figures_show_names_nothing():
    found = rl.check(timed(20.0, enable_prefix_caching=False), timed(7.0, enable_prefix_caching=True)).changed
    assert found.answer == UNCLEAR


def test_two_settings_that_fit_alike_name_nothing():
    before, after = timed(20.0, enforce_eager=True, use_deep_gemm=1), timed(7.0, enforce_eager=False, use_deep_gemm=0)
    assert rl.check(before, after).changed.answer == UNCLEAR


def test_a_setting_without_an_effect_changes_nothing():
    assert rl.check(timed(7.0, enforce_eager=True), timed(7.02, enforce_eager=False)).changed.answer == NOTHING


def test_one_load_does_not_tell_a_host_from_kernels_of_decode():
    found = rl.check(timed(20.0), timed(7.0)).changed
    assert found.answer == UNCLEAR
    assert {"a step" in cause.text or "a decode step" in cause.text for cause in found.explanations[:2]} == {True}


def test_one_figure_that_moves_by_ten_percent_does_not_mean_that_nothing_changed():
    first, last = ({key: value for key, value in timed(tpot).items() if key != "mean_ttft_ms"} for tpot in (8.0, 7.2))
    assert rl.check(first, last).changed.answer == UNCLEAR


def test_settings_of_sglang_and_of_the_environment_are_read():
    server = {"model_path": "x", "disable_radix_cache": True, "attention_backend": "fa3", "nested": {"a": 1}}
    assert dict(settings_of({"VLLM_USE_DEEP_GEMM": 0}, server)) == {
        "use_deep_gemm": "0", "disable_radix_cache": "true", "attention_backend": "fa3",
    }  # fmt: skip
    assert {part for part, _ in SETTINGS.values()} <= set(CAUSES)


def test_a_setting_that_not_all_runs_of_a_side_share_is_no_difference():
    one, other = (("max_num_seqs", "2"),), (("max_num_seqs", "64"),)
    assert differences([one, other], [other]) == ()


def test_tables_of_ngrams_that_do_not_fit_are_taken_to_be_on_the_host():
    result = {**SERVER, "model_id": "qwen3.8-flash-next", "gpu": "gb10", "quantization": "nvfp4", "mean_ttft_ms": 500.0}
    (run,) = rl.check(result)
    assert any("n-grams" in note for note in run.notes)


SLOW = {**LOAD, "model_id": "deepseek-r1", "gpu": "b200", "tp": 8, "engine": "trtllm", "quantization": "nvfp4"}


def notes(version, tpot):
    (run,) = rl.check({**SLOW, "engine_version": version, "mean_ttft_ms": 100.0, "mean_tpot_ms": tpot})
    return [note for note in run.warnings if "is known for" in note]


def test_a_version_known_to_be_slow_is_named_where_the_result_is_slow():
    (note,) = notes("1.2.0rc2", 60.0)
    assert "trtllm 1.2.0rc2" in note
    assert "https://github.com/NVIDIA/TensorRT-LLM/issues/9373" in note


def test_neither_a_healthy_result_nor_another_version_is_accused():
    (run,) = rl.check({**SLOW, "mean_ttft_ms": 100.0, "mean_tpot_ms": 60.0})
    assert notes("1.2.0rc2", 1000.0 * run.expected.tpot) == []
    assert notes("1.2.0rc1", 60.0) == []
    assert notes("1.2.0", 60.0) == []


def test_a_slow_version_on_one_side_names_its_part():
    first = {**SLOW, "engine_version": "1.2.0rc1", "mean_tpot_ms": 12.0}
    last = {**SLOW, "engine_version": "1.2.0rc2", "mean_tpot_ms": 30.0}
    found = rl.check(first, last).changed
    assert (found.answer, "issues/9373" in found.text) == ("kernels", True)


@pytest.mark.parametrize("slow", SLOW_VERSIONS, ids=lambda slow: f"{slow.engine}-{slow.first}")
def test_a_slow_version_has_its_source(slow):
    assert slow.url.startswith("https://")
    assert slow.part in CAUSES
    assert slow.metric in ("ttft", "tpot")
