"""The benchmark: what the engine costs, in requests, request units, time and memory. `make bench` runs it."""
