"""A self-signed certificate for the servers of one embedded cluster, made by Java's keytool.

It is its own CA certificate, so clients trust the same file.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Final

from rocketmq_spark.embedded.jvm import ChildJvm, find_java
from rocketmq_spark.errors import EmbeddedBrokerError

ALIAS: Final = "server"
PASSWORD: Final = "of-no-use"  # noqa: S105  # its file is in a private folder, and deleted once it was read
KEYTOOL_TIMEOUT_S: Final = 60
# It ends before the code of the second compiler pays: 0.4 s of processor instead of 0.8.
QUICK_JVM: Final = "-J-XX:TieredStopAtLevel=1"
HOSTS: Final = "ip:127.0.0.1,dns:localhost"


class ServerCertificate:
    """Files ``certificate`` and ``key`` in ``folder``, made by ``write``. ``hosts``: subject alternative names for
    keytool."""

    def __init__(self, folder: Path, hosts: str = HOSTS) -> None:
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        self._store = folder / "server.p12"
        self._hosts = hosts

    def java_options(self) -> tuple[str, ...]:
        """Return JVM options with which servers accept only TLS connections, with this certificate, and clients in the
        JVM use TLS, such as those of brokers."""
        settings = {
            "tls.server.mode": "enforcing",
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.server.certPath": str(self.certificate),
            "tls.server.keyPath": str(self.key),
        }
        return tuple(f"-D{name}={value}" for name, value in settings.items())

    def write(self, jvm: ChildJvm) -> None:
        """Create the folder, and in it the files ``certificate`` and ``key``, as PEM. Run keytool in its own JVM and
        wait; ``jvm`` converts keytool's file, which is then deleted. Raises FileExistsError for an existing folder,
        EmbeddedBrokerError[EMBEDDED_SERVER_FAILED], and the errors of ``run_keytool``."""
        self.key.parent.mkdir(mode=0o700)
        run_keytool(self._store, self._hosts)
        with jvm.raising_embedded_errors():
            security = jvm.connect().java.security
            characters = jvm.connect().java.io.CharArrayWriter()  # py4j makes no char[] of a text
            characters.write(PASSWORD, 0, len(PASSWORD))
            password = characters.toCharArray()
            store = security.KeyStore.getInstance(jvm.connect().java.io.File(str(self._store)), password)
            certificate = bytes(store.getCertificate(ALIAS).getEncoded())
            encoding = jvm.connect().java.lang.Class.forName("java.security.spec.PKCS8EncodedKeySpec")
            key_factory = security.KeyFactory.getInstance("EC")
            key = bytes(key_factory.getKeySpec(store.getKey(ALIAS, password), encoding).getEncoded())
        self._store.unlink()
        self.certificate.write_text(as_pem("CERTIFICATE", certificate), encoding="ascii")
        self.key.touch(mode=0o600)
        self.key.write_text(as_pem("PRIVATE KEY", key), encoding="ascii")


def run_keytool(store: Path, hosts: str) -> None:
    """Run keytool and wait, to write a new key and its self-signed certificate, valid for ten years, to the new PKCS
    #12 file ``store``. ``hosts``: subject alternative names, see ``HOSTS``. Raises
    EmbeddedBrokerError[EMBEDDED_SERVER_FAILED] if keytool fails, the errors of ``find_keytool``, and after 60 s
    subprocess.TimeoutExpired."""
    name = ("-dname", "CN=embedded RocketMQ", "-ext", f"san={hosts}", "-validity", "3650")
    keys = ("-keyalg", "EC", "-groupname", "secp256r1", "-alias", ALIAS)
    file = ("-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD)
    command = [find_keytool(), QUICK_JVM, "-genkeypair", *keys, *name, *file]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=KEYTOOL_TIMEOUT_S, check=False)
    if completed.returncode != 0:
        raise EmbeddedBrokerError(
            "EMBEDDED_SERVER_FAILED", problem=f"keytool made no certificate: {completed.stdout}{completed.stderr}"
        )


def find_keytool() -> str:
    """Return the path of the keytool beside ``java`` of ``find_java``, else beside the file that ``java`` links to.
    Raises EmbeddedBrokerError[JAVA_NOT_FOUND] if there is no ``java``, or no keytool beside it."""
    java = Path(find_java())
    for folder in (java.parent, java.resolve().parent):
        if keytool := shutil.which("keytool", path=str(folder)):
            return keytool
    raise EmbeddedBrokerError("JAVA_NOT_FOUND", problem=f"there is no keytool beside {java}")


def as_pem(kind: str, encoded: bytes) -> str:
    """Return ``encoded``, which is DER, as the text of a PEM file. ``kind``: such as "PRIVATE KEY"."""
    lines = "\n".join(textwrap.wrap(base64.b64encode(encoded).decode(), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
