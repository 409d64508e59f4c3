"""The Functions app: it serves the workflows of `workflows/` through the engine's triggers."""

import os

import azure.functions as func

from engine import Runtime
from engine.boundary.functions import blueprint
from workflows import WORKFLOWS

runtime = Runtime.from_environment(WORKFLOWS, os.environ)
app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
app.register_functions(blueprint(runtime))
