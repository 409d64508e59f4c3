"""The declarations of an author beside activities: workflows, deferreds and channels. Nothing here runs by itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from engine.core.activity import Call, current_context, named
from engine.core.options import Options, checked_tags
from engine.core.plans import Plan
from engine.core.source_places import declared_at
from engine.core.typed_values import TypedValues
from engine.ground import tokens
from engine.ground.errors import EncodingError, InvalidInput
from engine.ground.names import checked_name, is_execution_id, is_workflow_name
from engine.ground.names import execution_id as derived_id
from engine.values.codec import Codec, type_hints

if TYPE_CHECKING:
    from typing_extensions import TypeForm

P = ParamSpec("P")
R = TypeVar("R")

KeyFunction = Callable[[Any], str] | Callable[[], str]
"""Makes an idempotency key from the payload. For a workflow without a payload, it takes no argument."""

MAX_REASON = 1_000
"""Characters of the reason for an interrupt."""


class Steps(Protocol):
    """What a declaration needs from the context of the code that uses it."""

    def receive_deferred(self, deferred: Deferred[Any]) -> Coroutine[Any, Any, Any]: ...

    def call_child(
        self, workflow: Workflow[Any, Any], payload: Any, waits: bool, abandon: bool
    ) -> Coroutine[Any, Any, Any]: ...

    def receive_value(self, channel: Channel[Any]) -> Coroutine[Any, Any, Any]: ...

    def send_message(
        self,
        kind: Literal["send to", "resolve in", "interrupt"],
        workflow: Workflow[Any, Any],
        execution_id: str,
        target: Channel[Any] | Deferred[Any] | None,
        value: Any,
    ) -> Coroutine[Any, Any, Any]: ...


class Deferred(TypedValues, Generic[R]):
    """A value that comes from outside. A workflow may await it any number of times: `decision = await approval`.

    A deferred is resolved once for each execution. The first value wins, whether it comes before or after the workflow
    begins to wait. `name` is unique in an app. `type` is the type of the value.
    """

    VALUE = "the value of deferred"

    @overload
    def __init__(self: Deferred[Any], name: str) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[R]) -> None: ...
    def __init__(self, name: str, type: Any = Any) -> None:
        self.name = checked_name(name, "deferred")
        self.type = type
        _ = self.codec
        self.place = declared_at()

    def __getitem__(self, key: object) -> Deferred[R]:
        """One deferred of many with the same type, such as `approval[item.id]`. Each is resolved by itself."""
        name = f"{self.name}[{key}]"
        one = Deferred.__new__(Deferred)
        one.name = checked_name(name, "deferred", numbered=False)
        one.type, one.codec, one.place = self.type, self.codec, self.place
        return one

    def token(self) -> str:
        """The token with which the outside resolves this deferred of this execution. For the code of a workflow."""
        run = current_context()
        if run is None:
            raise RuntimeError("token() is for the code of a workflow; elsewhere it is token_for(workflow, payload)")
        return tokens.encode(tokens.Target(run.workflow.name, run.execution_id, self.name))

    def token_for(self, workflow: Workflow[Any, Any], payload: Any = None, *, key: str | None = None) -> str:
        """The same token, made outside a workflow, even before the execution is started. It is made from the
        idempotency key, which is given or derived from the payload. Raises ValueError if there is no key."""
        key = key if key is not None else workflow.key_of(workflow.stored_payload(payload)[1])
        if key is None:
            raise ValueError(f"workflow {workflow.name} declares no idempotency key: pass key=")
        return tokens.encode(tokens.Target(workflow.name, derived_id(workflow.name, key), self.name))

    async def wait(self) -> R:
        """Wait for the value. This gives a coroutine for `create_task`, `asyncio.wait` and similar functions."""
        run = current_context()
        if run is None:
            raise RuntimeError(f"deferred {self.name!r} can only be awaited in a workflow")
        value: R = await cast(Steps, run).receive_deferred(self)
        return value

    def __await__(self) -> Generator[Any, Any, R]:
        return self.wait().__await__()

    def __repr__(self) -> str:
        return f"<deferred {self.name}>"


class Channel(TypedValues, Generic[R]):
    """Many values from outside under one name. They arrive in order, and each is received once.

        async for event in events: ...          # or: event = await events.receive()

    `name` is unique in an app. `type` is the type of the values.
    """

    VALUE = "a value of channel"

    @overload
    def __init__(self: Channel[Any], name: str) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[R]) -> None: ...
    def __init__(self, name: str, type: Any = Any) -> None:
        self.name = checked_name(name, "channel")
        self.type = type
        _ = self.codec
        self.place = declared_at()

    async def receive(self) -> R:
        """Wait for the next value."""
        run = current_context()
        if run is None:
            raise RuntimeError(f"channel {self.name!r} can only be received from in a workflow")
        value: R = await cast(Steps, run).receive_value(self)
        return value

    def __aiter__(self) -> Channel[R]:
        return self

    async def __anext__(self) -> R:
        return await self.receive()

    def __repr__(self) -> str:
        return f"<channel {self.name}>"


class Peer:
    """Another execution, as the code of a workflow reaches it. Made by `Workflow.handle`. Each request is a durable
    step, which reaches the other execution once, however often this one is replayed.

    A request raises UnknownExecution if there is no such execution. What the other one does with a value is its own
    affair: to wait for its result, call it as a child.
    """

    def __init__(self, workflow: Workflow[Any, Any], execution_id: str) -> None:
        self._workflow = workflow
        self.execution_id = execution_id

    async def send(self, channel: Channel[R], value: R) -> None:
        """Send a value to a channel of the other execution. Raises UnknownExecution, AlreadyEnded, and EncodingError or
        TooLarge for a value that can't be stored."""
        if not isinstance(channel, Channel):
            raise TypeError(f"send() takes a Channel, not {channel!r}")
        await self._ask("send to", channel, value)

    @overload
    async def resolve(self, deferred: Deferred[None]) -> None: ...
    @overload
    async def resolve(self, deferred: Deferred[R], value: R) -> None: ...
    async def resolve(self, deferred: Deferred[Any], value: Any = None) -> None:
        """Resolve a deferred of the other execution. The first value wins: the same value again is a success. Raises
        UnknownExecution, AlreadyEnded, AlreadyResolved, and EncodingError or TooLarge."""
        if not isinstance(deferred, Deferred):
            raise TypeError(f"resolve() takes a Deferred, not {deferred!r}")
        await self._ask("resolve in", deferred, value)

    async def interrupt(self, *, reason: str | None = None) -> None:
        """Ask the other execution to stop and clean up. One that has ended stays as it is. `reason`: up to 1,000
        characters. Raises UnknownExecution, and ValueError for another reason."""
        if reason is not None and not (isinstance(reason, str) and 0 < len(reason) <= MAX_REASON):
            raise ValueError(
                f"the reason of an interrupt must be text of 1 to {MAX_REASON:,} characters, not {reason!r}"
            )
        await self._ask("interrupt", None, reason)

    def _ask(
        self,
        kind: Literal["send to", "resolve in", "interrupt"],
        target: Channel[Any] | Deferred[Any] | None,
        value: Any,
    ) -> Coroutine[Any, Any, Any]:
        run = current_context()
        if run is None:
            raise RuntimeError(
                f"a workflow's code made this handle of {self._workflow!r}, so only that code can use it"
            )
        return cast(Steps, run).send_message(kind, self._workflow, self.execution_id, target, value)

    def __repr__(self) -> str:
        return f"<execution {self.execution_id} of workflow {self._workflow.name}>"


class Workflow(Generic[P, R]):
    """An async function that survives crashes, deployments and waiting. Made by `@workflow`."""

    def __init__(
        self,
        function: Callable[P, Awaitable[R]],
        name: str | None,
        version: str,
        idempotency_key: KeyFunction | None,
        options: Options,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            hint = ": it has a yield, which makes it a generator" if inspect.isasyncgenfunction(function) else ""
            raise TypeError(f"@workflow takes an async function, not {function!r}{hint}")
        parameters = list(inspect.signature(function).parameters.values())
        if len(parameters) > 1 or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
            raise TypeError(f"workflow {function.__name__} takes one payload or none: put several values in one model")
        if not isinstance(version, str) or not version:
            raise TypeError(
                f"the version of workflow {function.__name__} must be text that isn't empty, not {version!r}"
            )
        if idempotency_key is not None and not callable(idempotency_key):
            raise TypeError(
                f"idempotency_key= takes a function of the payload, as in lambda order: order.id, not "
                f"{idempotency_key!r}"
            )
        functools.update_wrapper(cast(Any, self), function)
        self.function = function
        self.name = checked_name(name or function.__name__, "workflow")
        if not is_workflow_name(self.name):
            raise ValueError(f"the name of a workflow may have only letters, digits, '_' and '.', unlike {self.name!r}")
        self.version = version
        self.idempotency_key = cast(Callable[..., str] | None, idempotency_key)
        self.options = options
        self.place = declared_at()
        self.schedule: Schedule | None = None
        self.takes_payload = bool(parameters)
        self.optional_payload = bool(parameters) and parameters[0].default is not inspect.Parameter.empty

    @functools.cached_property
    def payload(self) -> Codec:
        """How the payload is stored."""
        parameters = list(inspect.signature(self.function).parameters)
        hints = type_hints(self.function, f"workflow {self.name}")
        annotation = hints.get(parameters[0], inspect.Parameter.empty) if parameters else None
        return Codec(annotation, f"the payload of workflow {self.name}")

    @functools.cached_property
    def result(self) -> Codec:
        """How the result is stored."""
        hints = type_hints(self.function, f"workflow {self.name}")
        return Codec(hints.get("return", inspect.Parameter.empty), f"the result of workflow {self.name}")

    def arguments(self, payload: str) -> tuple[Any, ...]:
        """The function's arguments for a stored payload. Raises DecodingError."""
        return (self.payload.decode(payload),) if self.takes_payload else ()

    def default_payload(self) -> Any:
        """The payload of a start that gives none. Raises InvalidInput if the workflow needs one."""
        if not self.takes_payload:
            return None
        if not self.optional_payload:
            raise InvalidInput(f"workflow {self.name} needs a payload", [("(body)", "missing")])
        return next(iter(inspect.signature(self.function).parameters.values())).default

    def key_of(self, payload: Any) -> str | None:
        """The idempotency key that the workflow derives from a payload. None if it declares no key function. Raises
        InvalidInput if the function fails or doesn't give a text."""
        if self.idempotency_key is None:
            return None
        try:
            key = self.idempotency_key(payload) if self.takes_payload else self.idempotency_key()
        except Exception as error:
            raise InvalidInput(f"workflow {self.name} can't derive its idempotency key: {error!r}") from error
        if not isinstance(key, str) or not key:
            raise InvalidInput(
                f"the idempotency key of workflow {self.name} must be text that isn't empty, not {key!r}"
            )
        return key

    def tags_of(self, payload: Any) -> dict[str, str]:
        """The tags of an execution with this payload. Raises InvalidInput if the workflow can't make them."""
        tags = self.options.tags
        if not callable(tags):
            return dict(tags)
        make = cast(Callable[..., object], tags)
        try:
            return checked_tags(make(payload) if self.takes_payload else make())
        except Exception as error:
            raise InvalidInput(f"workflow {self.name} can't make its tags of the payload: {error!r}") from error

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        run = current_context()
        if run is None:
            payload = "payload" if self.takes_payload else ""
            raise RuntimeError(
                f"workflow {self.name} is called outside of a workflow, where nothing would make it durable: write "
                f"await client.start({', '.join(filter(None, (self.name, payload)))}) to start it, "
                f"await client.execute(…) to have its result too, await env.run(…) in a test, or "
                f"{self.name}.function({payload}) for the plain function"
            )
        return self._call_child(run, args, kwargs, waits=True, abandon=False)

    def child(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Call the workflow as a child that lives on when its parent ends."""
        return self._call_child(self._inside("child"), args, kwargs, waits=True, abandon=True)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Call[str]:
        """Start a child without waiting for its end. Returns the child's execution id. For the code of a workflow.
        Other code uses `client.start`."""
        return self._call_child(self._inside("start"), args, kwargs, waits=False, abandon=True)

    def handle(self, execution_id: str | None = None, *, key: str | None = None) -> Peer:
        """Another execution of this workflow, by its id or its idempotency key, from the code of a workflow; elsewhere
        it is `client.handle`. It needn't exist: each request says so. Raises ValueError for a malformed id or key."""
        self._inside("handle")
        if (execution_id is None) == (key is None):
            raise TypeError("handle() takes an execution id or key=: give one of the two")
        if key is not None and (not isinstance(key, str) or not key):
            raise ValueError(f"an idempotency key must be text that isn't empty, not {key!r}")
        id = execution_id if execution_id is not None else derived_id(self.name, str(key))
        if not isinstance(id, str) or not is_execution_id(id):
            raise ValueError(f"an execution id has 32 hexadecimal digits, unlike {id!r}")
        return Peer(self, id)

    def stored_payload(self, payload: Any) -> tuple[str, Any]:
        """The JSON text of a payload, and the value that the workflow sees. Raises EncodingError, TooLarge."""
        if not self.takes_payload:
            if payload is not None:
                raise EncodingError(f"workflow {self.name} takes no payload, but got a {type(payload).__name__}")
            return "null", None
        return self.payload.round_trip(payload)

    def _inside(self, word: str) -> Any:
        run = current_context()
        if run is None:
            raise RuntimeError(f"{self.name}.{word}() is for the code of a workflow")
        return run

    def _call_child(
        self, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], waits: bool, abandon: bool
    ) -> Coroutine[Any, Any, Any]:
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"workflow {self.name}: {error}") from None
        bound.apply_defaults()
        payload = next(iter(bound.arguments.values()), None)
        return named(cast(Steps, run).call_child(self, payload, waits, abandon), repr(self))

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


@dataclass(frozen=True)
class Schedule:
    """When a workflow starts by itself: the workflow that keeps the schedule, and the plan that the app declares."""

    keeper: Workflow[[Plan], None]
    plan: Plan
