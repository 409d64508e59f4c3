"""The double as a process of its own."""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.cosmos.aio import CosmosClient
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from tests.cosmos_double import WELL_KNOWN_KEY, CosmosDouble

ROOT = Path(__file__).parents[3]


async def test_it_serves_until_it_is_stopped():
    arguments = ["-m", "tests.cosmos_double", "--port", "0", "--ranges", "2", "--container", "app/work/executionId"]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    try:
        assert process.stdout is not None
        endpoint = (await process.stdout.readline()).decode().split()[1]
        key = (await process.stdout.readline()).decode().split()[1]
        async with CosmosClient(endpoint, key) as client:
            work = client.get_database_client("app").get_container_client("work")
            await work.create_item({"id": "exec", "executionId": "e1"})
            assert (await work.read())["defaultTtl"] == -1
            assert len([feed_range async for feed_range in work.read_feed_ranges()]) == 2
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--container", "work"], b"'work' is not DATABASE/CONTAINER/PK"),
        (["--ranges", "0"], b"at least 1"),
        (["--consistency", "Weak"], b"Strong"),
        (["--tls", "no.pem"], b"no.pem can't be used"),
        (["--host", "127.0.0.1", "--port", "TAKEN"], b"can't listen on 127.0.0.1:"),
        (["--help"], b"no emulator"),
    ],
)
async def test_what_it_can_not_do_it_says(arguments: list[str], words: bytes):
    async with CosmosDouble() as other:
        taken = other.endpoint.rstrip("/").rpartition(":")[2]
        arguments = [taken if one == "TAKEN" else one for one in arguments]
        command = [sys.executable, "-m", "tests.cosmos_double", *arguments]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=STDOUT)
        output, _ = await process.communicate()
    assert words in b" ".join(output.split())
    assert b"Traceback" not in output
    assert (process.returncode == 0) is (arguments == ["--help"])


async def test_it_serves_tls(tmp_path: Path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    pem = tmp_path / "localhost.pem"
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = certificate.public_bytes(serialization.Encoding.PEM)
    pem.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form) + public)
    (tmp_path / "trusted.pem").write_bytes(public)
    arguments = ["-m", "tests.cosmos_double", "--host", "localhost", "--port", "0", "--tls", str(pem)]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    try:
        assert process.stdout is not None
        endpoint = (await process.stdout.readline()).decode().split()[1]
        assert endpoint.startswith("https://localhost:")
        trust = str(tmp_path / "trusted.pem")
        async with CosmosClient(endpoint, WELL_KNOWN_KEY, connection_verify=trust) as client:
            assert [database["id"] async for database in client.list_databases()] == []
    finally:
        process.kill()
        await process.wait()
