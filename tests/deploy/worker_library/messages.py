"""The messages between the Functions host and its Python worker, as plain objects.

The worker's library is given the module of protobuf messages by whoever drives it, and uses little of them: fields,
`WhichOneof`, and some constants. These have that much.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar


class Message:
    """Named fields. `WhichOneof` gives the name of the one field that is set beside `name`."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def WhichOneof(self, group: str) -> str | None:
        """The one of a group's fields that is set."""
        return next((field for field, value in vars(self).items() if field != "name" and value is not None), None)


class BindingInfo(Message):
    """A binding of a function."""

    undefined: ClassVar[int] = 0
    out: ClassVar[int] = 1
    inout: ClassVar[int] = 2


class StatusResult(Message):
    """How a request went."""

    Failure: ClassVar[int] = 0
    Success: ClassVar[int] = 1


PROTOS = SimpleNamespace(
    BindingInfo=BindingInfo,
    StatusResult=StatusResult,
    **{
        name: type(name, (Message,), {})
        for name in (
            "FunctionLoadResponse",
            "FunctionMetadataResponse",
            "InvocationResponse",
            "ParameterBinding",
            "RpcException",
            "RpcFunctionMetadata",
            "RpcHttp",
            "RpcRetryOptions",
            "TypedData",
            "WorkerInitResponse",
            "WorkerMetadata",
        )
    },
)


def request(**fields: Any) -> Message:
    """A request as the worker's library takes it."""
    return Message(request=Message(**fields), properties={"host": "127.0.0.1", "protos": PROTOS})


def invocation(function_id: str, parameter: str, data: Message) -> Message:
    """The request to run a function once."""
    return request(
        invocation_request=Message(
            invocation_id=f"invocation of {function_id}",
            function_id=function_id,
            input_data=[PROTOS.ParameterBinding(name=parameter, data=data)],
            trigger_metadata={},
            trace_context=Message(trace_parent="", trace_state="", attributes={}),
            retry_context=Message(retry_count=0, max_retry_count=0, exception=None),
        )
    )


def http_data(method: str, url: str, body: bytes, params: dict[str, str], headers: dict[str, str]) -> Message:
    """An HTTP request: header names in lower case, the query beside the address, no body as empty bytes."""
    query = dict(part.split("=", 1) for part in url.partition("?")[2].split("&") if part)
    return PROTOS.TypedData(
        http=PROTOS.RpcHttp(
            method=method,
            url=url,
            headers={name.lower(): value for name, value in headers.items()},
            body=PROTOS.TypedData(bytes=body),
            params=params,
            query=query,
        )
    )


def text_data(text: str) -> Message:
    """A message of a queue."""
    return PROTOS.TypedData(string=text)


def json_data(text: str) -> Message:
    """JSON text: a batch of the change feed, or a timer's time."""
    return PROTOS.TypedData(json=text)
