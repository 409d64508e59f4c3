"""The functions and modules that a workflow's code must not use, by their qualified names."""

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
"""Each rule has a name, a reason and a replacement. A name that ends in a dot, or is in `PREFIXES`, matches every
qualified name that begins with it. Any other name matches only itself. The first matching rule applies. An empty reason
means that the code may use it."""

PREFIXES = {"os.path.is", "os.path.get", "asyncio.create_subprocess", "psycopg"}

FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "iterdir"}

CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "update"}
"""Methods that change the collection they are called on."""

TAKES_ORDER = {"list", "tuple", "enumerate", "iter", "zip", "map"}
"""Built-in functions that walk their arguments in order."""

TAKES_SECONDS = {"sleep", "timeout", "wait_for", "wait", "as_completed", "call_later"}
"""Functions of asyncio that take a duration in seconds."""


def rule_for(name: str) -> tuple[str, str] | None:
    """Why a workflow must not use that name, and what to use instead. An empty reason means that the workflow may use
    it. None if no rule matches."""
    for beginning, why, instead in RULES:
        begins = beginning.endswith(".") or beginning in PREFIXES
        if name.startswith(beginning) if begins else name == beginning:
            return why, instead
    return None
