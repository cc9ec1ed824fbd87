"""Connections with TLS as options state; what they are made over is ``test_tls``."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.remoting.secured import connect_with, tls_context
from rocketmq_spark.security import Secret, Tls

CERTIFICATE = Path(__file__).parent.parent / "support" / "tls" / "localhost.crt"
KEY = CERTIFICATE.with_suffix(".key")
TRUSTING = Tls(trust_cert_path=str(CERTIFICATE))


def test_certificates_and_host_names_are_checked() -> None:
    context = tls_context(TRUSTING)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1


def test_the_check_of_host_names_alone_can_be_skipped() -> None:
    context = tls_context(Tls(trust_cert_path=str(CERTIFICATE), check_host_name=False))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_all_checks_can_be_skipped() -> None:
    context = tls_context(Tls(auth_server=False))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_without_a_file_the_system_s_certificates_are_trusted() -> None:
    expected = ssl.create_default_context()
    assert tls_context(Tls()).cert_store_stats() == expected.cert_store_stats()


@pytest.mark.parametrize(
    "given",
    [
        Tls(str(CERTIFICATE), str(CERTIFICATE), str(KEY)),
        Tls(str(CERTIFICATE), str(CERTIFICATE), str(KEY), auth_server=False),
    ],
    ids=["trusting", "not checking"],
)
def test_a_client_has_a_certificate_if_it_is_given_one(given: Tls) -> None:
    assert shown_to_a_server(tls_context(given)) == ssl.PEM_cert_to_DER_cert(CERTIFICATE.read_text())


def test_a_client_without_a_certificate_shows_none() -> None:
    assert shown_to_a_server(tls_context(Tls(str(CERTIFICATE)))) is None


def shown_to_a_server(client: ssl.SSLContext) -> bytes | None:
    """The certificate, in DER, that a server gets which requests one, over a handshake in memory."""
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(CERTIFICATE, KEY)
    accepting.load_verify_locations(CERTIFICATE)
    accepting.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        accepting.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1].getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("tls", "option", "problem"),
    [
        (Tls("/nowhere.pem"), "tlsTrustCertPath", "No such file"),
        (Tls(str(KEY)), "tlsTrustCertPath", "no certificate"),
        (Tls(None, str(CERTIFICATE), "/nowhere.key"), "tlsCertPath", "No such file"),
        (Tls(None, str(CERTIFICATE), str(CERTIFICATE)), "tlsCertPath", "PEM"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tls: Tls, option: str, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        tls_context(tls)
    assert raised.value.condition == "TLS_FILE_UNUSABLE"
    assert raised.value.context["option"] == option
    assert problem in str(raised.value)


def test_a_key_s_password_is_in_no_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.key"
    broken.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(OptionError) as raised:
        tls_context(Tls(None, str(CERTIFICATE), str(broken), Secret("hunter2")))
    assert "hunter2" not in str(raised.value)
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)


def test_files_are_read_by_the_connecting_process() -> None:
    """What travels to executors are paths; nothing is read before there is a connection to make."""
    connect = connect_with(Tls("/nowhere.pem"))
    with pytest.raises(OptionError, match="TLS_FILE_UNUSABLE"):
        connect("127.0.0.1:1", 10)
