"""A model for coding agents, on loopback: it asks for one shell command, then says that it is done.

It answers at the four APIs that agents use, in a stream or not. Which step comes next follows from the number of
tool results in the request, so it needs no memory. A request without a shell tool gets an edit as text (aider).
"""

import json
from typing import Any

from ...models.server import Behaviour, Connection, answer, raw_answer

_SHELLS = ("exec_command", "shell_command", "shell", "bash", "Bash", "run_shell_command")
_DONE = "SUMMARY: nine is more"
_EDIT = "src/x.txt\n```\n9\n```\n" + _DONE
_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_COUNTS = 100, 20
_FILLED = {"integer": 10000, "number": 10000, "boolean": False, "array": [], "object": {}}


def agent_model(*commands: str) -> Behaviour:
    """Plays these shell commands, one for each step."""

    def behave(connection: Connection) -> None:
        request = connection.request
        body = json.loads(request.raw or b"{}")
        path = request.path.partition("?")[0]
        for end, play in _APIS.items():
            if end in path:
                play(body, commands, "stream" in path or body.get("stream") is True)(connection)
                return
        answer({"error": {"message": f"nothing at {path}"}}, 404)(connection)

    return behave


def _next(tools: dict[str, Any], done: int, commands: tuple[str, ...]) -> tuple[str, dict[str, Any]] | str:
    """The next call of a tool, or the last words."""
    name = next((shell for shell in _SHELLS if shell in tools), None)
    if name is None:
        return _EDIT
    return (name, _arguments(tools[name] or {}, commands[done])) if done < len(commands) else _DONE


def _arguments(schema: dict[str, Any], command: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    key = next((name for name in ("command", "cmd") if name in properties), "command")
    is_list = properties.get(key, {}).get("type") == "array"
    arguments: dict[str, Any] = {key: ["bash", "-lc", command] if is_list else command}
    for name in schema.get("required", ()):
        arguments.setdefault(name, _FILLED.get(properties.get(name, {}).get("type"), "to make it nine"))
    return arguments


def _events(*events: dict[str, Any], named: bool = False, last: str = "") -> Behaviour:
    lines = ((f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events)
    return raw_answer(("".join(lines) + last).encode(), 200, "text/event-stream")


def _chat(body: dict[str, Any], commands: tuple[str, ...], is_stream: bool) -> Behaviour:
    tools = {tool["function"]["name"]: tool["function"].get("parameters") for tool in body.get("tools") or ()}
    done = sum(message["role"] == "tool" for message in body["messages"])
    if _SUBMIT in json.dumps(body["messages"]):  # mini-swe-agent ends by a command
        commands = (*commands, f"echo {_SUBMIT} && echo '{_DONE}'")
    step = _next(tools, done, commands)
    usage = {"prompt_tokens": _COUNTS[0], "completion_tokens": _COUNTS[1], "total_tokens": sum(_COUNTS)}
    if isinstance(step, str):
        message, finish = {"role": "assistant", "content": step}, "stop"
    else:
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    head = {"id": "c1", "created": 1, "model": body["model"]}
    if not is_stream:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return answer({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    chunk = {**head, "object": "chat.completion.chunk"}
    return _events(
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
        last="data: [DONE]\n\n",
    )


def _responses(body: dict[str, Any], commands: tuple[str, ...], is_stream: bool) -> Behaviour:
    tools = {
        tool["name"]: tool.get("parameters") for tool in body.get("tools") or () if tool["type"] == "function"
    }
    done = sum(item.get("type", "").endswith("_output") for item in body["input"])
    step = _next(tools, done, commands)
    if isinstance(step, str):
        part = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
    else:
        item = {
            "type": "function_call",
            "id": f"f{done}",
            "call_id": f"call_{done}",
            "name": step[0],
            "arguments": json.dumps(step[1]),
            "status": "completed",
        }
    usage = {
        "input_tokens": _COUNTS[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _COUNTS[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(_COUNTS),
    }
    whole = {"id": "r1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed"}
    whole |= {"output": [item], "usage": usage}
    if not is_stream:
        return answer(whole)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    return _events(
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
        named=True,
    )


def _messages(body: dict[str, Any], commands: tuple[str, ...], is_stream: bool) -> Behaviour:
    tools = {tool["name"]: tool.get("input_schema") for tool in body.get("tools") or ()}
    parts = [part for turn in body["messages"] if isinstance(turn["content"], list) for part in turn["content"]]
    done = sum(part.get("type") == "tool_result" for part in parts)
    step = _next(tools, done, commands)
    usage = {"input_tokens": _COUNTS[0], "output_tokens": _COUNTS[1]}
    if isinstance(step, str):
        block: dict[str, Any] = {"type": "text", "text": step}
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": step}
    else:
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": step[0], "input": step[1]}
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    stop = "end_turn" if isinstance(step, str) else "tool_use"
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": body["model"]}
    message |= {"content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
    if not is_stream:
        return answer(message)
    return _events(
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
        named=True,
    )


def _generate(body: dict[str, Any], commands: tuple[str, ...], is_stream: bool) -> Behaviour:
    found = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    tools = {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") for one in found}
    parts = [part for turn in body["contents"] for part in turn.get("parts", ())]
    step = _next(tools, sum("functionResponse" in part for part in parts), commands)
    text = isinstance(step, str)
    part = {"text": step} if text else {"functionCall": {"name": step[0], "args": step[1]}}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": _COUNTS[0],
            "candidatesTokenCount": _COUNTS[1],
            "totalTokenCount": sum(_COUNTS),
        },
    }
    return _events(whole) if is_stream else answer(whole)


_APIS = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
    "enerateContent": _generate,
}


def code_mode_model(*programs: str) -> Behaviour:
    """Plays these programs, one for each step, as Codex's own models do: they call tools by code alone."""

    def behave(connection: Connection) -> None:
        request = connection.request
        if not request.path.partition("?")[0].endswith("/responses"):
            answer({"error": {"message": "nothing there"}}, 404)(connection)
            return
        body = json.loads(request.raw)
        done = sum(item.get("type", "").endswith("_output") for item in body["input"])
        if done < len(programs):
            item = {"type": "custom_tool_call", "id": f"c{done}", "call_id": f"call_{done}", "name": "exec"}
            item |= {"input": programs[done], "status": "completed"}
        else:
            part = {"type": "output_text", "text": _DONE, "annotations": []}
            item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
        usage = {"input_tokens": _COUNTS[0], "output_tokens": _COUNTS[1], "total_tokens": sum(_COUNTS)}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        whole = {"id": f"r{done}", "object": "response", "created_at": 1, "model": body["model"]}
        whole |= {"status": "completed", "output": [item], "usage": usage}
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        _events(
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
            named=True,
        )(connection)

    return behave
