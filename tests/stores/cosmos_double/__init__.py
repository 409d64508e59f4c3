"""Tests of the Cosmos double itself, through the SDK and, where the SDK would hide something, by raw HTTP."""
