"""Requests to the model of an assistant that calls a tool (MCP: sampling): it writes, and pays for it itself."""

from typing import Any, NamedTuple

from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from dagster_project.servers.answers import ModelPrompt
from transforms.errors import ServiceError, SettingsError

_ASKED_BY_RESULT = "2026-07-28"
"""The version of the protocol from which on a tool asks the caller by its result, and is called again."""
_KEY = "reply"
_MOST_TOKENS = 2_048


class CallerReply(NamedTuple):
    """The text that a model wrote, and its name."""

    text: str
    model: str


async def reply_of_caller(
    context: Context[Any, Any], prompt: ModelPrompt
) -> CallerReply | InputRequiredResult:
    """The reply of the caller's model to a prompt at temperature 0, or a result that asks for it.

    SettingsError for a caller that offers no model, ServiceError for a reply that is not a text.
    """
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise SettingsError(
            "this assistant lends no model to servers (MCP: sampling): ask without `model`"
        )
    request = CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[SamplingMessage(role="user", content=TextContent(text=prompt.text))],
            system_prompt=prompt.instruction,
            temperature=0,
            max_tokens=_MOST_TOKENS,
        )
    )
    version = context.protocol_version
    if version is None or not is_version_at_least(version, _ASKED_BY_RESULT):
        metadata = ServerMessageMetadata(related_request_id=context.request_id)
        return _read(
            await context.session.send_request(request, CreateMessageResult, metadata=metadata)
        )
    if (response := (context.input_responses or {}).get(_KEY)) is None:
        return InputRequiredResult(input_requests={_KEY: request})
    try:
        return _read(CreateMessageResult.model_validate(response.model_dump(by_alias=True)))
    except ValidationError as error:
        raise ServiceError("the reply of the caller is not one of a model: ask again") from error


def _read(reply: CreateMessageResult) -> CallerReply:
    if not isinstance(reply.content, TextContent):
        raise ServiceError(f"{reply.model} replied with {reply.content.type}, not with text")
    return CallerReply(reply.content.text, reply.model)
