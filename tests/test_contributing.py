"""The page on adding a GPU or a model: its files are valid and its commands print what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "contributing.md").read_text(encoding="utf-8")
FILES = re.findall(r"^Save this as `(\S+)`:\n\n```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SESSIONS = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def conversations():
    """Commands of the page, each with what it shows below."""
    for session in SESSIONS:
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)


def run(folder, command):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": path}
    return subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my-specs").mkdir()
    return tmp_path


def test_the_page_has_a_file_of_each_kind_and_sessions_for_both():
    assert [name for name, _ in FILES] == ["my-specs/acme-a1.yaml", "my-specs/tiny-1.3b.yaml"]
    assert len(SESSIONS) == 3
    assert len(list(conversations())) == 5


def test_the_commands_print_what_the_page_shows(folder):
    for name, text in FILES:
        pages_before = PAGE.index(f"`{name}`")
        (folder / name).write_text(text, encoding="utf-8")
        following = PAGE.find("Save this as", pages_before + 1)
        for command, shown in conversations():
            if pages_before < PAGE.index(f"$ {command}\n") < (following if following > 0 else len(PAGE)):
                done = run(folder, command)
                assert done.returncode == (1 if "sed " in command else 0), done.stderr
                # Times move with the physics; all else on the page must be what is printed.
                assert words(done.stdout) == words(shown), command
                assert times(done.stdout) == pytest.approx(times(shown), rel=0.5)
        (folder / name).unlink()
    assert not list((folder / "my-specs").iterdir())


# A time and the two ends of its interval stand before what bounds it.
_TIME = r" +(\d+\.?\d*)(?=(?: +\d+\.?\d*){0,2} +(?:compute|memory|latency|exponentials|link)\b)"


def words(text):
    return re.sub(r"-{2,}", "--", re.sub(r" +", " ", re.sub(_TIME, " #", text)))


def times(text):
    return [float(number) for number in re.findall(_TIME, text)]


def test_a_model_of_a_configuration_is_shown_as_the_page_says(folder):
    assert "roofline models show path/to/config.json --format json" in PAGE
    (folder / "path" / "to").mkdir(parents=True)
    config = (
        '{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, '
        '"num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 64000, '
        '"tie_word_embeddings": true, "hidden_act": "silu", "max_position_embeddings": 32768, '
        '"torch_dtype": "bfloat16"}'
    )
    (folder / "path" / "to" / "config.json").write_text(config, encoding="utf-8")
    done = run(folder, "roofline models show path/to/config.json --format json")
    assert done.returncode == 0, done.stderr
    assert '"document"' in done.stdout
    assert '"kv_heads": 4' in done.stdout


def test_the_files_of_the_page_name_schemas_that_are_there():
    for _, text in FILES:
        schema = re.search(r"\$schema=\.\./(\S+)", text)
        assert (Path(__file__).parents[1] / schema[1]).is_file()
