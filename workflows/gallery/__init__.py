"""A gallery of small programs, one for each shape that durable work takes. Each has its test in `tests/gallery/`.

The app doesn't run them. Copy the one that looks like your work into `workflows/` and give its activities a body.
"""
