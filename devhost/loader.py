"""Loads the app and reads its functions through azure-functions' own objects.

The loader refuses what the platform's worker refuses. So the platform can index an app that starts here:
1. The module can be imported while an event loop runs, and has exactly one name for a FunctionApp.
2. Function names are unique.
3. Every parameter but `context` has a binding, and every binding has its parameter.
4. Annotations are types that the binding's converter accepts.

This host serves four triggers (HTTP, timer, Cosmos DB, queue) and one more binding, the output to a queue. It leaves
out functions with other triggers or bindings, with a warning.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import azure.functions as func
from azure.functions.decorators import FunctionRegister

from devhost.functions import App, FeedTrigger, Function, HttpTrigger, QueueOutput, QueueTrigger, TimerTrigger
from devhost.retry import parse_policy
from devhost.settings import LoadError, resolve
from devhost.timers import Schedule

HTTP, TIMER, FEED, QUEUE = "httpTrigger", "timerTrigger", "cosmosDBTrigger", "queueTrigger"
DEFAULT_POLL_MILLISECONDS = 5000
DEFAULT_MAX_ITEMS = 100

_log = logging.getLogger("devhost")


def load(name: str, environment: Mapping[str, str]) -> App:
    """Imports the module `name` and reads its functions.

    Raises LoadError if this host can't serve the app. If the app raised an exception, that is the error's cause.
    """
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # An app may call sys.exit() during its import. The host must not end with that exit code.
        raise LoadError(f"importing {name} failed with {type(error).__name__}: {error}") from error
    try:
        found = [_read(function, environment) for function in _find_app(module).get_functions()]
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"the functions of {name} can't be read: {type(error).__name__}: {error}") from error
    functions = tuple(one for one in found if isinstance(one, Function))
    app = App(name, module, functions, tuple(one for one in found if isinstance(one, str)))
    for left_out in app.left_out:
        _log.warning("left out: %s", left_out)
    if sum(function.binding == FEED for function in app.functions) > 1:
        raise LoadError("the app has several Cosmos DB triggers; this host reads one feed, for one function")
    if not app.functions:
        _log.warning("%s has no functions that this host can serve", name)
    return app


def _find_app(module: ModuleType) -> Any:
    # As for the platform's worker, one object under two names counts twice.
    names = [name for name in dir(module) if isinstance(getattr(module, name, None), FunctionRegister)]
    if not names:
        raise LoadError(f"{module.__name__} has no FunctionApp at its top level")
    if len(names) > 1:
        raise LoadError(f"{module.__name__} has more than one FunctionApp at its top level: {', '.join(names)}")
    return getattr(module, names[0])


def _read(source: Any, environment: Mapping[str, str]) -> Function | str:
    """The function, or why this host can't serve it."""
    name = source.get_function_name()
    try:
        return _describe(name, source, environment)
    except (LoadError, ValueError, TypeError, NameError) as error:
        raise LoadError(f"function {name}: {error}") from error


def _describe(name: str, source: Any, environment: Mapping[str, str]) -> Function | str:
    call, trigger = source.get_user_function(), source.get_trigger()
    bound = {binding.name: binding for binding in source.get_bindings()}
    returned = bound.pop("$return", None)
    annotations = typing.get_type_hints(call)
    wants_context = _check_parameters(call, set(bound), annotations)

    outputs = tuple(
        _output(binding, annotations.get(name), environment)
        for name, binding in bound.items()
        if binding.type == "queue"
    )
    further = [
        f"{binding.type} {binding.name}"
        for binding in bound.values()
        if binding is not trigger and binding.type != "queue"
    ]
    if returned is not None and not (trigger.type == HTTP and returned.type == "http"):
        further.append(f"{returned.type} $return")
    if trigger.type not in (HTTP, TIMER, FEED, QUEUE) or further:
        what = f"the binding {further[0]}" if further else f"a {trigger.type}"
        return f"function {name}: this host can't serve {what}"

    as_text = annotations.get(trigger.name) is str and trigger.type != HTTP
    if trigger.name in annotations and not as_text:
        _check_annotation(trigger.name, annotations[trigger.name], trigger.type, "check_input_type_annotation")
    if returned is not None and "return" in annotations:
        _check_annotation("the return value", annotations["return"], returned.type, "check_output_type_annotation")
    return Function(
        name=name,
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        binding=trigger.type,
        trigger=_trigger(name, trigger, environment),
        parameter=trigger.name,
        as_text=as_text,
        wants_context=wants_context,
        has_return=returned is not None,
        retry=parse_policy(source.get_settings_dict("retry_policy")),
        outputs=outputs,
    )


def _output(binding: Any, annotation: Any, environment: Mapping[str, str]) -> QueueOutput:
    """The queue that a parameter sends to. Raises LoadError for a parameter that isn't annotated `func.Out[…]`."""
    if typing.get_origin(annotation) is not func.Out:
        raise LoadError(f"the output parameter {binding.name} must be azure.functions.Out[…], not {annotation!r}")
    (inner,) = typing.get_args(annotation)
    converter: Any = func.get_binding_registry().get(binding.type)  # type: ignore[no-untyped-call]
    if not converter.check_output_type_annotation(inner):
        raise LoadError(f"{binding.name} is annotated {annotation!r}, which can't be a message of a queue")
    return QueueOutput(binding.name, resolve(str(binding.get_dict_repr()["queueName"]), environment))


def _check_parameters(call: Any, bound: set[str], annotations: Mapping[str, Any]) -> bool:
    """Whether the function takes a context. Raises LoadError if parameters and bindings don't match."""
    parameters = set(inspect.signature(call).parameters)
    wants_context = "context" in parameters and "context" not in bound
    if wants_context:
        parameters.remove("context")
        annotation = annotations.get("context", func.Context)
        if not isinstance(annotation, type) or annotation.__name__ != "Context":
            raise LoadError(f"the context parameter must be azure.functions.Context, not {annotation!r}")
    if unbound := sorted(parameters - bound):
        raise LoadError(f"no trigger or binding provides the parameter {', '.join(unbound)}")
    if missing := sorted(bound - parameters):
        raise LoadError(f"a decorator names the parameter {', '.join(missing)}, which the function doesn't have")
    return wants_context


def _check_annotation(place: str, annotation: Any, binding: str, check: str) -> None:
    converter: Any = func.get_binding_registry().get(binding)  # type: ignore[no-untyped-call]
    if not isinstance(annotation, type) or not getattr(converter, check)(annotation):
        raise LoadError(f"{place} is annotated {annotation!r}, which a {binding} doesn't take")


def _trigger(
    name: str, trigger: Any, environment: Mapping[str, str]
) -> HttpTrigger | TimerTrigger | FeedTrigger | QueueTrigger:
    # The dictionary has the same keys for the special decorators and for generic_trigger.
    options: dict[str, Any] = trigger.get_dict_repr()
    if trigger.type == HTTP:
        methods = options.get("methods")
        return HttpTrigger(
            route=str(options.get("route", name)).strip("/"),
            methods=frozenset(str(method).upper() for method in methods) if methods else None,
            anonymous=str(options.get("authLevel", "function")).upper() == "ANONYMOUS",
        )
    if trigger.type == TIMER:
        schedule = resolve(options["schedule"], environment)
        Schedule(schedule)
        return TimerTrigger(schedule, bool(options.get("runOnStartup")))
    if trigger.type == QUEUE:
        return QueueTrigger(resolve(str(options["queueName"]), environment))
    poll = int(options.get("feedPollDelay", DEFAULT_POLL_MILLISECONDS))
    max_items = int(options.get("maxItemsPerInvocation", DEFAULT_MAX_ITEMS))
    if poll < 0 or max_items < 1:
        raise LoadError("feed_poll_delay must be at least 0 ms, and max_items_per_invocation at least 1")
    return FeedTrigger(poll / 1000, max_items)
