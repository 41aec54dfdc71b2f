"""What tools answer over MCP: JSON, in the text and as structured content, where Gradio writes Python's own form."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson


def answer_in_json(server: Any) -> None:
    """Have a server of Gradio answer values as JSON, and files as it does."""
    from mcp import types

    of_gradio = server.postprocess_output_data
    handlers: dict[Any, Callable[..., Any]] = server.mcp_server.request_handlers
    call = handlers[types.CallToolRequest]

    def contents(data: list[Any], root_url: str) -> list[Any]:
        answers: list[Any] = []
        for output in data:
            if isinstance(output, (dict, list)) and "gradio.FileData" not in str(output):
                answers.append(types.TextContent(type="text", text=orjson.dumps(output).decode()))
            else:
                answers += of_gradio([output], root_url)
        return answers

    async def with_structure(request: Any) -> Any:
        answer = await call(request)
        result = answer.root
        if not result.isError and len(result.content) == 1 and isinstance(result.content[0], types.TextContent):
            value: Any = result.content[0].text
            with suppress(ValueError):  # of a tool that answers a text
                value = json.loads(value)
            result.structuredContent = value if isinstance(value, dict) else {"result": value}
        return answer

    server.postprocess_output_data = contents
    handlers[types.CallToolRequest] = with_structure
