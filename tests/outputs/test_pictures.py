"""What pictures show: panels, lines, ranges, limits and footers, before they are drawn; and that they are drawn."""

from itertools import pairwise
from math import hypot
from xml.etree import ElementTree as ET

import pytest
from cli.asking import ask
from conftest import close
from every_case import each

import roofline as rl

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 1000, "osl": 300, "tp": 1}
SLO = "ttft:300@p95,tpot:15"


@pytest.fixture(scope="module")
def loaded():
    return rl.predict(MODEL, GPU, concurrency=16, slo=SLO, **CASE)


@pytest.fixture(scope="module")
def drawn():
    return rl.plot.curve(rl.curve(MODEL, GPU, slo=SLO, **CASE))


def test_a_curve_draws_the_percentile_that_the_slo_limits_in_its_range(drawn):
    ttft, tpot, _ = drawn.panels
    assert [line.label for line in ttft.series] == ["p95"]
    assert [line.label for line in tpot.series] == ["mean"]
    assert ttft.levels == {"TTFT p95 limit": 300.0}
    (line,) = ttft.series
    middle = len(line.places) // 2
    row = rl.predict(MODEL, GPU, request_rate=line.places[middle], **CASE).to_dict()
    assert close(line.values[middle], row["ttft_p95_ms"], 1e-9)
    assert close(line.band[0][middle], row["ttft_p95_low_ms"], 1e-9)
    assert close(line.band[1][middle], row["ttft_p95_high_ms"], 1e-9)
    free = rl.plot.curve(rl.curve(MODEL, GPU, **CASE)).panels[0]
    assert [line.label for line in free.series] == ["median", "p99"]


def test_lines_of_a_curve_have_no_kinks(drawn):
    for panel in drawn.panels[:2]:
        for line in panel.series:
            width = line.places[-1] - line.places[0]
            points = [
                (x / width, y / panel.top) for x, y in zip(line.places, line.values, strict=True) if y <= panel.top
            ]
            assert len(points) > 30
            for (x, y), (middle, height), (right, up) in zip(points, points[1:], points[2:], strict=False):
                away = (right - x) * (height - y) - (up - y) * (middle - x)  # area over the chord: distance from it
                assert abs(away) < 0.005 * hypot(right - x, up - y)


@each("dark", [False, True])
def test_a_picture_has_the_whole_case_at_its_foot(drawn, tmp_path, dark):
    pytest.importorskip("matplotlib")
    for words in (MODEL, "weights bf16", f"1x {GPU} (tp 1)", "1000 tokens in, 300 out", "TTFT p95", "engine generic",
                  "calibrated: hopper", "requests at random times", f"roofline {rl.__version__}"):  # fmt: skip
        assert words in drawn.footer
    path = tmp_path / ("x.dark.svg" if dark else "x.svg")
    drawn.save(str(path))
    root = ET.fromstring(path.read_text())
    width, height = (float(root.get(side).removesuffix("pt")) for side in ("width", "height"))
    assert close(width / height, 16.0 / 9.0, 1e-6)
    content = path.read_text()
    assert ("#14171c" in content) is dark
    assert "#0072b2" in content or "#56b4e9" in content
    assert "requests at" in content


def test_a_ranking_has_the_fastest_first_with_ranges_and_the_limit():
    answers = [rl.predict(MODEL, gpu, concurrency=16, slo=SLO, **CASE) for gpu in ("l40s", GPU, "b200")]
    ttft, tpot = rl.plot.ranking(answers).panels
    assert (ttft.levels, tpot.levels) == ({"limit": 300.0}, {"limit": 15.0})
    for panel, key in ((ttft, "ttft_p95"), (tpot, "tpot")):
        values = [bar.parts[0] for bar in panel.bars]
        assert values == sorted(values)
        assert len(values) == 3
        rows = {f"1x {row['gpu']} (tp 1)": row for row in (answer.to_dict() for answer in answers)}
        for bar in panel.bars:
            assert bar.parts == [rows[bar.label][f"{key}_ms"]]
            assert bar.span == (rows[bar.label][f"{key}_low_ms"], rows[bar.label][f"{key}_high_ms"])


def test_a_ranking_ends_with_what_is_only_announced_and_shows_the_first_of_many():
    answers = [rl.predict(MODEL, gpu, basis="ideal") for gpu in ("vr200-nvl72", GPU)]
    labels = [bar.label for bar in rl.plot.ranking(answers).panels[0].bars]
    assert labels == [f"1x {GPU} (tp 1)", "1x vr200-nvl72 (tp 1), announced"]
    many = rl.plot.ranking(answers[1:] * 40)
    assert len(many.panels[0].bars) == 16
    assert "16 of 40" in many.title


def test_kernels_lie_below_their_roofs(loaded):
    (panel,) = rl.plot.roofline(loaded).panels
    roofs = [line for line in panel.series if line.label.endswith(" roof")]
    gpu = loaded.deployment.gpu
    assert max(value for line in roofs for value in line.values) == 989.4
    kernels = [line for line in panel.series if line.is_point]
    assert {"linear layers", "attention"} <= {line.label for line in kernels}
    for line in kernels:
        for intensity, rate in zip(line.places, line.values, strict=True):
            assert rate * 1e12 <= min(989.4e12, intensity * gpu.bandwidth) * 1.0000001


def test_parts_of_ttft_and_of_a_step_are_all_of_their_time(loaded):
    (panel,) = rl.plot.parts(loaded).panels
    assert [bar.label.partition(",")[0] for bar in panel.bars] == ["TTFT", "decode step"]
    assert all(close(sum(bar.parts), 100.0, 1e-9) for bar in panel.bars)
    share = panel.bars[0].parts[panel.names.index("queue")]
    assert close(share, 100.0 * loaded.queue / (loaded.queue + loaded.prefill.time), 1e-9)


def test_ttft_grows_with_the_prompt_and_passes_through_the_case(loaded):
    (panel,) = rl.plot.prompt_length(loaded).panels
    line, here = panel.series
    assert all(shorter <= longer for shorter, longer in pairwise(line.values))
    assert close(line.values[list(line.places).index(1000.0)], here.values[0], 1e-9)
    assert panel.levels == {"TTFT p95 limit": 300.0}


def test_a_heat_map_has_the_case_in_it_and_its_limit(loaded):
    (cells,) = rl.plot.heat_map(loaded).panels
    row, column = list(cells.heights).index(16.0), list(cells.places).index(1000.0)
    assert close(cells.values[row][column], loaded.tpot * 1e3, 1e-9)
    assert cells.limit == 15.0
    far = rl.predict(MODEL, GPU, concurrency=int(cells.heights[-1]), **(CASE | {"isl": int(cells.places[-1])}))
    assert close(cells.values[-1][-1], far.tpot * 1e3, 1e-9)


def test_a_tornado_names_inputs_in_words():
    picture = rl.plot.tornado(rl.sensitivity(MODEL, GPU, of="tpot", batch=16, **CASE), top=12)
    (panel,) = picture.panels
    labels = [bar.label for bar in panel.bars]
    assert "linear layers bf16: share of the HBM bandwidth" in labels
    assert not any("_" in label for label in labels)
    assert len(labels) == 12
    sizes = [abs(sum(bar.parts)) for bar in panel.bars]
    assert sizes == sorted(sizes, reverse=True)


def test_every_answer_with_a_picture_is_drawn_by_its_type(loaded):
    assert len(rl.plot.of(loaded).panels) == 4
    assert len(rl.plot.of([loaded, loaded]).panels) == 2
    assert rl.plot.of(rl.sensitivity(MODEL, GPU, **CASE)).panels
    with pytest.raises(rl.BadInput, match="has no picture"):
        rl.plot.of(3)


@each("command", [
    ("predict", "-m", MODEL, "-g", GPU),
    ("predict", "-m", MODEL, "-g", f"{GPU},b200", "-c", "8"),
    ("predict", "-m", MODEL, "-g", GPU, "--osl", "1"),
    ("compare", "-m", MODEL, "-g", f"{GPU},b200"),
    ("sensitivity", "-m", MODEL, "-g", GPU),
    ("curve", "-m", MODEL, "-g", GPU),
    ("pareto", "-m", MODEL, "-g", GPU, "--tp", "1", "-b", "1:16:x4"),
], ids=" ".join)  # fmt: skip
def test_plot_means_the_same_in_every_command(command, tmp_path):
    pytest.importorskip("plotext")
    pytest.importorskip("matplotlib")
    alone, named = (
        ask(*command, *words, env={"COLUMNS": "80", "LINES": "24"}) for words in (["--plot"], ["--plot", "terminal"])
    )
    assert alone.exit_code == 0
    assert alone.stdout == named.stdout
    lines = alone.stdout.splitlines()
    assert (max(map(len, lines)) <= 80, len(lines) <= 23) == (True, True)
    path = tmp_path / "x.png"
    done = ask(*command, "--plot", path)
    assert done.exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {path}" in done.stderr
    assert ask(*command, "--plot", path).exit_code == 1
    path.unlink()
    refused = ask(*command, "--plot", tmp_path / "runs.json")
    assert (refused.exit_code, "not a picture" in refused.stderr) == (1, True)


@each(("command", "picture"), [
    (("predict", "-c", 16), lambda: rl.plot.of(rl.predict(MODEL, GPU, concurrency=16))),
    (("curve",), lambda: rl.plot.of(rl.curve(MODEL, GPU))),
    (("sensitivity",), lambda: rl.plot.of(rl.sensitivity(MODEL, GPU))),
    (("compare", "-g", "b200"), lambda: rl.plot.ranking([rl.predict(MODEL, gpu) for gpu in (GPU, "b200")])),
])  # fmt: skip
def test_a_screen_without_room_for_all_charts_says_how_many_it_has(command, picture):
    pytest.importorskip("plotext")
    titles = [panel.title for panel in picture().panels]
    for columns, lines in ((80, 24), (120, 40)):
        screen = ask(*command, "-m", MODEL, "-g", GPU, "--plot", env={"COLUMNS": str(columns), "LINES": str(lines)})
        shown = sum(title in screen.output for title in titles)
        assert shown >= 2
        below = f"{shown} of {len(titles)} charts: --all or --plot FILE draws all"
        assert screen.output.splitlines().count(below) == (shown < len(titles))
        assert len(screen.output.splitlines()) <= lines - 2  # the command above, the prompt below
        assert max(map(len, screen.output.splitlines())) <= columns
    whole = ask(*command, "-m", MODEL, "-g", GPU, "--plot", "--all", env={"COLUMNS": "80"}).output
    assert all(title in whole for title in titles)
    assert "charts: " not in whole
