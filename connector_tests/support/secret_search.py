"""Secret options of a test's job, and the search for them in all that the job has shown and left."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

TOKEN: Final = "q7-nobody-sees-this"
KEY_PASSWORD: Final = "x4-nor-that"
"""Without any word that Spark redacts a value for: the names of the options must be enough."""

CERTIFICATE: Final = Path(__file__).parent / "tls" / "localhost.crt"


def encrypted_certificate(folder: Path) -> dict[str, str]:
    """Options of a client's certificate, which no server requests; its key is in ``folder``, with KEY_PASSWORD."""
    key = folder / "client.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(CERTIFICATE.with_suffix(".key"))]
    subprocess.run([*command, "-passout", f"pass:{KEY_PASSWORD}", "-out", str(key)], check=True, capture_output=True)
    return {"tlsCertPath": str(CERTIFICATE), "tlsKeyPath": str(key), "tlsKeyPassword": KEY_PASSWORD}


def files_below(folder: Path) -> dict[str, bytes]:
    """Content of each file, by its path below ``folder``."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def places_of(secrets: Collection[str], shown: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    """The first lines that have one of the secrets, cut, by the name of what has shown them."""
    found = {name: _lines_with(secrets, data) for name, data in shown.items()}
    return {name: lines for name, lines in found.items() if lines}


def _lines_with(secrets: Collection[str], data: bytes) -> list[bytes]:
    return [line[:300] for line in data.splitlines() if any(secret.encode() in line for secret in secrets)][:5]
