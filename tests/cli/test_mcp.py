"""`roofline mcp` as agents meet it: the real process, asked over stdio by the client of the official SDK."""

import json
import os
import subprocess
import sys

import anyio
import jsonschema
import pytest
from cli.asking import ask as ask_shell
from every_case import each
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import roofline as rl
from roofline.cli.mcp import _server
from roofline.cli.tools import description, schema, tool_names

CASE = {"model": "llama-3.1-8b", "gpu": "h100-sxm"}
BESIDE = {"model": "llama-3.1-8b", "gpus": ["h100-sxm", "h200"]}
RUN = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 20.0}
OF_RUN = {**CASE, "tp": 1, "isl": 1024, "osl": 100, "batch": 1}
#: Tool, its arguments, and the same in Python.
ANSWERED = {
    "predict": ({**CASE, "isl": "4k", "users": 8}, lambda: rl.predict(**CASE, isl="4k", concurrency=8)),
    "plan": ({**BESIDE, "slo": "ttft:300,tpot:25"}, lambda: rl.plan(**BESIDE, slo="ttft:300,tpot:25")),
    "fits": (BESIDE, lambda: rl.fits(**BESIDE)),
    "check": ({"results": RUN, **OF_RUN}, lambda: rl.check(RUN, **OF_RUN)),
    "compare": (BESIDE, lambda: rl.compare(**BESIDE)),
}
#: Tool, its arguments, and what the refusal says; ROOT stands for the folder with what is allowed and what is not.
REFUSED = [
    ("predict", {**CASE, "gpu": "h101"}, "UnknownName: unknown GPU 'h101'; did you mean h100-sxm"),
    ("predict", {**CASE, "slo_ttft": 3}, "UnknownName: predict takes no 'slo_ttft'"),
    ("predict", {"model": "llama-3.1-405b", "gpu": "l4", "tp": 1}, "DoesNotFit: "),
    ("forecast", {}, "UnknownName: unknown tool 'forecast'; choose from predict, plan"),
    ("plan", {"model": "llama-3.1-8b", "slo": "tpot:25", "isl": "1:5000"}, "are too many to try in a call"),
    ("predict", {**CASE, "isl": list(range(1, 5000))}, "isl has 4,999 values; a call takes at most 64"),
    ("check", {**OF_RUN, "results": "ROOT/secret.json"}, "outside the folders that are allowed (ROOT/allowed)"),
    ("check", {**OF_RUN, "results": "ROOT/allowed/../secret.json"}, "outside the folders that are allowed"),
    ("check", {**OF_RUN, "results": "ROOT/allowed/link.json"}, "`roofline mcp --folder FOLDER` allows one"),
    ("check", {**OF_RUN, "results": "/dev/stdin"}, "outside the folders that are allowed"),
    ("predict", {**CASE, "model": "/etc/passwd"}, "outside the folders that are allowed"),
    ("predict", {**CASE, "model": "acme/never-seen-1b"}, "configurations of the hub are not fetched here"),
    ("predict", {**CASE, "model": "\x1b[31m\u202e"}, "\\x1b[31m"),
    ("predict", {**CASE, "model": "'; import os; os.system('true')"}, "UnknownName: unknown model"),
]
WORDS = [sys.executable, "-m", "roofline", "mcp"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a result that may be read, and one beside it that may not, which a link leads to."""
    root = tmp_path_factory.mktemp("places")
    allowed = root / "allowed"
    allowed.mkdir()
    for path in (allowed / "run.json", root / "secret.json"):
        path.write_text(json.dumps({"date": "20260101-000000", "model_id": "llama-3.1-8b", **RUN}))
    (allowed / "link.json").symlink_to(root / "secret.json")
    return root


def filled(arguments, root):
    return json.loads(json.dumps(arguments).replace("ROOT", str(root)))


@pytest.fixture(scope="module")
def session(places):
    """What one process says to everything that is asked of it, some of it at once; and who it says it is."""
    return anyio.run(_session, places)


async def _session(root):
    told = {}
    process = StdioServerParameters(
        command=WORDS[0], args=[*WORDS[1:], "--folder", str(root / "allowed")], env=dict(os.environ)
    )
    async with Client(stdio_client(process)) as client:
        told["server"], told["instructions"] = client.server_info, client.instructions
        told["tools"] = (await client.list_tools()).tools

        async def call(key, name, arguments):
            told[key] = await client.call_tool(name, filled(arguments, root))

        async with anyio.create_task_group() as together:
            for name, (arguments, _) in ANSWERED.items():
                together.start_soon(call, name, name, arguments)
        for name, (arguments, _) in ANSWERED.items():
            await call(f"{name}, full", name, {**arguments, "full": True})
        for place, (name, arguments, _) in enumerate(REFUSED):
            await call(place, name, arguments)
        await call("file", "check", {**OF_RUN, "results": "ROOT/allowed/run.json"})
        await call("gpus", "gpus", {})
        await call("model", "models", {"name": "llama-3.1-8b"})
    return told


def test_tools_are_listed_with_schemas_of_their_own(session):
    assert session["server"].name == "roofline"
    assert session["server"].version == rl.__version__
    assert "allowed" in session["instructions"]
    listed = {tool.name: tool for tool in session["tools"]}
    assert tuple(listed) == tool_names() == ("predict", "plan", "fits", "check", "compare", "gpus", "models")
    for name, tool in listed.items():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema == schema(name)
        assert tool.description == description(name)
        assert tool.annotations.read_only_hint is True
        jsonschema.validate(ANSWERED.get(name, ({},))[0] | ({"concurrency": 8} if name == "predict" else {}), {
            **tool.input_schema, "additionalProperties": name == "predict",  # which is asked for `users`
        })  # fmt: skip


@each("name", ANSWERED)
def test_each_tool_answers_as_python_does_to_the_last_digit(name, session):
    answer = ANSWERED[name][1]()
    short = session[name]
    assert not short.is_error
    rows = short.structured_content["rows"]
    assert rows == json.loads(json.dumps(answer.to_rows(list(rows[0]))))
    (text,) = short.content
    assert 100 < len(text.text) < 3000
    full = session[f"{name}, full"]
    assert full.structured_content["rows"] == json.loads(json.dumps(answer.to_rows()))
    assert json.loads(full.content[0].text) == full.structured_content


def test_the_catalog_and_a_file_that_is_allowed_are_read(session, places):
    assert session["gpus"].structured_content == {"names": list(rl.gpus())}
    assert session["model"].structured_content["rows"][0]["layers"] == 32
    (row,) = session["file"].structured_content["rows"]
    assert row["source"] == str(places / "allowed" / "run.json")
    assert row["measured_ttft_ms"] == 30.0
    assert "TTFT" in session["file"].content[0].text


@each(("place", "said"), [(place, said) for place, (_, _, said) in enumerate(REFUSED)])
def test_what_is_refused_is_an_error_of_the_tool_in_a_sentence(place, said, session, places):
    refusal = session[place]
    assert refusal.is_error
    (text,) = refusal.content
    assert said.replace("ROOT", str(places)) in text.text
    assert "Traceback" not in text.text
    assert "\x1b" not in text.text
    assert len(text.text) < 1500


def test_nothing_but_the_protocol_is_printed_and_the_end_of_the_input_is_the_end():
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = [
        {"id": 1, "method": "initialize", "params": opening},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "predict", "arguments": [1]}},
        {"id": 3, "method": "no/method"},
        {"id": 4, "method": "tools/call", "params": {"name": "predict", "arguments": CASE}},
    ]
    odd = ["no message at all", "{", "[]", json.dumps("x" * 100_000), "[" * 10_000, "\0"]
    lines = [*(json.dumps({"jsonrpc": "2.0", **each_one}) for each_one in asked[:2]), *odd]
    lines += [json.dumps({"jsonrpc": "2.0", **each_one}) for each_one in asked[2:]]
    process = subprocess.Popen(WORDS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(4)]
    rest, errors = process.communicate(timeout=60)  # which closes the input
    assert {answer["id"]: "result" in answer for answer in answers} == {1: True, 2: False, 3: False, 4: True}
    assert (process.returncode, rest) == (0, "")
    assert errors == "answering a client on standard input and output. No files are read.\n"


def test_a_fault_of_ours_is_said_to_be_one_and_its_traceback_is_in_the_log_alone(monkeypatch, caplog):
    async def ask_once():
        async with Client(_server([])) as client:
            assert client.instructions.endswith("No files are read.")
            return await client.call_tool("predict", CASE)

    def broken(name, arguments):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("roofline.cli.tools.ask", broken)
    told = anyio.run(ask_once)
    assert told.is_error
    assert told.content[0].text == "predict failed, which is a fault of roofline: ZeroDivisionError"
    assert "of all things" in caplog.text


def test_a_folder_must_be_one_and_the_sdk_is_asked_for_where_it_is_missing(tmp_path, monkeypatch):
    missing = ask_shell("mcp", "--folder", tmp_path / "results")
    assert missing.exit_code == 2
    assert "is not a folder" in missing.stderr
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    refused = ask_shell("mcp")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert refused.stderr.splitlines() == [
        'Error: agents are answered with the SDK of the Model Context Protocol: pip install "roofline[mcp]"'
    ]
