"""The command `mcp`: the tools for agents over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

import roofline
from roofline.cli.main import Question
from roofline.cli.options import echo
from roofline.support.errors import RooflineError, needing

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_HOW = "`roofline mcp --folder FOLDER` allows one"
_INSTRUCTIONS = (
    "Closed-form predictions of how fast a model answers on GPUs. Times are in ms, ranges are 80 % intervals, and "
    "`basis` says what a figure stands on. A short answer leaves out rows and keys; `keys` and `full` ask for them."
)


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n  roofline mcp\n  roofline mcp --folder results --folder specs",
)
@click.option(
    "--folder",
    "folders",
    multiple=True,
    metavar="FOLDER",
    help="Folder below which tools may read files; give it again for another.  [default: none]",
)
def mcp(folders: tuple[str, ...]) -> None:
    """Answer agents: predict, plan, fits, check, compare and the catalog as tools of the Model Context Protocol.

    A client starts this command and speaks to it on standard input and output;
    docs/howto/agents.md says how to set one up.
    Tools write no files, fetch nothing, and read files only below the folders that you name.
    """
    from roofline.questions.catalog import reading_only

    allowed = [os.path.expanduser(folder) for folder in folders]  # noqa: PTH111 - clients expand no tilde
    missing = next((folder for folder in allowed if not os.path.isdir(folder)), None)  # noqa: PTH112
    if missing is not None:
        raise click.BadParameter(f"{missing!r} is not a folder", param_hint="'--folder'")
    with needing("agents are answered with the SDK of the Model Context Protocol", "mcp"):
        import anyio
        from mcp.server.stdio import stdio_server
    server = _server(allowed)
    echo(f"answering a client on standard input and output. {_where(allowed)}", err=True)
    options = server.create_initialization_options()

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, options)

    with reading_only(allowed, _HOW):
        anyio.run(serve)


def _where(folders: list[str]) -> str:
    """Which files are read, in a sentence."""
    return f"Files are read only below {', '.join(folders)}." if folders else "No files are read."


def _server(folders: list[str]) -> Server[dict[str, Any]]:
    """A server that lists the tools and calls them one at a time, in a thread beside the one that listens."""
    from logging import getLogger

    import anyio
    from mcp import types
    from mcp.server.lowlevel import Server

    from roofline.cli.tools import ask, description, schema, tool_names

    log = getLogger(__name__)
    one_by_one = anyio.CapacityLimiter(1)

    def result(text: str, content: dict[str, Any] | None = None) -> types.CallToolResult:
        block = types.TextContent(type="text", text=text)
        return types.CallToolResult(content=[block], structured_content=content, is_error=content is None)

    def answer(name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        try:
            told = ask(name, arguments)
        except RooflineError as error:
            return result(f"{type(error).__name__}: {error}")
        except Exception as error:  # a client gets no traceback; the log has it
            log.exception("%s failed", name)
            return result(f"{name} failed, which is a fault of roofline: {type(error).__name__}")
        return result(told.text, told.content)

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=description(name), input_schema=schema(name), annotations=hints)
                for name in tool_names()
            ]
        )

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(answer, params.name, params.arguments or {}, limiter=one_by_one)

    return Server(
        "roofline",
        version=roofline.__version__,
        instructions=f"{_INSTRUCTIONS} {_where(folders)}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
