"""What a workflow's code may not do, by the qualified name of what it calls."""

from __future__ import annotations

CLOCK = "reads the machine's clock"
CHANCE = "differs in every replay"
ENVIRONMENT = "reads the environment, which a deployment changes"
FILES = "touches files"
NETWORK = "uses the network"
PROCESS = "starts a process"
THREADS = "uses threads"
REPEATED = "is repeated by every replay"

IN_A_THREAD = "a sync activity, which runs in a thread"
OUTSIDE = "the payload, or an activity"

RULES: list[tuple[str, str, str]] = [
    ("time.sleep", "blocks the host", "asyncio.sleep()"),
    ("time.", CLOCK, "workflow.now()"),
    ("datetime.datetime.now", CLOCK, "workflow.now()"),
    ("datetime.datetime.utcnow", CLOCK, "workflow.now()"),
    ("datetime.datetime.today", CLOCK, "workflow.now()"),
    ("datetime.date.today", CLOCK, "workflow.now().date()"),
    ("random.Random", "", ""),
    ("random.", CHANCE, "workflow.random()"),
    ("numpy.random.", CHANCE, "workflow.random()"),
    ("secrets.", CHANCE, "an activity that makes the secret"),
    ("uuid.uuid1", CHANCE, "workflow.uuid4()"),
    ("uuid.uuid4", CHANCE, "workflow.uuid4()"),
    ("os.urandom", CHANCE, "workflow.random()"),
    ("os.environ", ENVIRONMENT, OUTSIDE),
    ("os.getenv", ENVIRONMENT, OUTSIDE),
    ("os.path.exists", FILES, "an activity"),
    ("os.path.is", FILES, "an activity"),
    ("os.path.get", FILES, "an activity"),
    ("os.path.", "", ""),
    ("os.", "touches the machine", "an activity"),
    ("builtins.open", FILES, "an activity"),
    ("builtins.input", "waits for a person at the machine", "a Deferred"),
    ("pathlib.Path.", FILES, "an activity"),
    ("shutil.", FILES, "an activity"),
    ("tempfile.", FILES, "an activity"),
    ("sqlite3.", "touches a database", "an activity"),
    ("psycopg", "touches a database", "an activity"),
    ("sqlalchemy.", "touches a database", "an activity"),
    ("pymongo.", "touches a database", "an activity"),
    ("redis.", "touches a database", "an activity"),
    ("socket.", NETWORK, "an activity"),
    ("urllib.request.", NETWORK, "an activity"),
    ("urllib3.", NETWORK, "an activity"),
    ("http.client.", NETWORK, "an activity"),
    ("requests.", NETWORK, "an activity"),
    ("httpx.", NETWORK, "an activity"),
    ("aiohttp.", NETWORK, "an activity"),
    ("azure.", NETWORK, "an activity"),
    ("boto3.", NETWORK, "an activity"),
    ("openai.", NETWORK, "an activity"),
    ("anthropic.", NETWORK, "an activity"),
    ("smtplib.", NETWORK, "an activity"),
    ("subprocess.", PROCESS, "an activity"),
    ("multiprocessing.", PROCESS, "an activity"),
    ("concurrent.futures.", THREADS, IN_A_THREAD),
    ("threading.", THREADS, IN_A_THREAD),
    ("asyncio.to_thread", THREADS, IN_A_THREAD),
    ("asyncio.all_tasks", "lists the tasks of the whole process, in any order", "tasks that you keep yourself"),
    ("asyncio.open_connection", NETWORK, "an activity"),
    ("asyncio.create_subprocess", PROCESS, "an activity"),
    ("asyncio.run", "starts another loop", "await"),
    ("logging.", REPEATED, "workflow.logger"),
]
"""Beginnings of qualified names; the first that fits counts. An empty reason means that it is fine. One that ends in no
dot stands for itself alone, unless it is in `PREFIXES`."""

PREFIXES = {"os.path.is", "os.path.get", "asyncio.create_subprocess", "psycopg"}

FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "iterdir"}

CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "update"}
"""Methods that change the collection they are called on."""

TAKES_ORDER = {"list", "tuple", "enumerate", "iter", "zip", "map"}
"""Built-ins that walk what they are given in its order."""

TAKES_SECONDS = {"sleep", "timeout", "wait_for", "wait", "as_completed", "call_later"}
"""Functions of asyncio that take a duration, as a number of seconds."""


def rule_for(name: str) -> tuple[str, str] | None:
    """Why something of that name doesn't belong in a workflow (not at all, if that is empty), and what does; None if no
    rule fits."""
    for beginning, why, instead in RULES:
        begins = beginning.endswith(".") or beginning in PREFIXES
        if name.startswith(beginning) if begins else name == beginning:
            return why, instead
    return None
