"""The Functions app: it serves the workflows of `workflows/` through the engine's triggers."""

import os

import azure.functions as func

from engine import Runtime
from engine.boundary.functions import auth_level, blueprint
from workflows import WORKFLOWS

runtime = Runtime.from_environment(WORKFLOWS, os.environ)
app = func.FunctionApp(http_auth_level=auth_level(runtime))
app.register_functions(blueprint(runtime))
