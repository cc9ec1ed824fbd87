"""Diagnoses of connections that fail: name resolution, ports, protocols and TLS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, diagnosis_of
from rocketmq_spark.doctor.facts import BrokerFacts, ServerFacts, is_of_topic
from rocketmq_spark.errors import RocketMQError

_UNKNOWN_HOST: Final = "gaierror"
"""Name of the ``socket`` module's exception for a host name that does not resolve; pure modules do not import it."""

_GRPC_UNKNOWN_HOST: Final = re.compile("DNS|[Dd]omain name not found|[Nn]ame or service not known")
_GRPC_REFUSED: Final = "Connection refused"
"""In the reasons of gRPC, whose errors have no exception as their cause."""

_EXPIRED: Final = "expired"


class _Server(NamedTuple):
    """``title`` such as "name server ns:9876"; ``advice``: how to fix its address."""

    area: Area
    title: str
    advice: str
    place: str = ""


_Build = Callable[[_Server, RocketMQError], Diagnosis]


def name_server_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return a diagnosis, with its first error, for each checked name server that responded about no topic. None of its
    results is a route or a RouteError, such as a missing topic. They are warnings if another name server responded
    about one, otherwise problems. Unchecked name servers get none, see ``unchecked_diagnoses``."""
    failures = {
        address: next((one for one in results.values() if isinstance(one, RocketMQError)), None)
        for address, results in servers.name_servers.items()
        if not any(map(is_of_topic, results.values()))
    }
    severity = Severity.WARNING if len(failures) < len(servers.name_servers) else Severity.PROBLEM
    return [
        replace(
            _diagnosis(_Server(Area.NAME_SERVERS, f"name server {address}", "Correct 'namesrvAddr'"), error),
            severity=severity,
        )
        for address, error in failures.items()
        if error is not None
    ]


def broker_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return a problem for each broker with a ``failure``, which this machine cannot use; it names the origin of the
    address."""
    return [
        _diagnosis(
            _Server(
                Area.BROKERS,
                f"broker '{broker.name}' at {_origin(servers, broker.server)} {broker.server}",
                "Set the broker's 'brokerIP1' to an address that the driver and all executors can reach, or set "
                "'brokerAddressMap'",
                broker.name,
            ),
            broker.failure,
        )
        for broker in servers.brokers
        if broker.failure is not None
    ]


def slave_failure_diagnosis(servers: ServerFacts, slave: BrokerFacts) -> Diagnosis:
    """Return the problem of a slave with a ``failure``; it names the origin of the address. Raises ValueError without
    a failure."""
    if slave.failure is None:
        raise ValueError(f"slave {slave.server} has no failure")
    title = f"slave of broker '{slave.name}' at {_origin(servers, slave.server)} {slave.server}"
    advice = (
        "Set the slave's 'brokerIP1' to an address that the driver and all executors can reach, or set "
        "'brokerAddressMap'"
    )
    return _diagnosis(_Server(Area.BROKERS, title, advice, slave.name), slave.failure)


def _origin(servers: ServerFacts, server: str) -> str:
    """Return as text whether ``brokerAddressMap`` sets the address ``server``, or the broker advertises it."""
    return "its address in 'brokerAddressMap'" if server in servers.address_map.values() else "its advertised address"


def address_map_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return one warning that lists all addresses of ``brokerAddressMap`` that no broker in the routes advertises.
    Return [] if there are none, or if no route has a broker."""
    unknown = sorted(servers.address_map.keys() - servers.advertised)
    if not unknown or not servers.advertised:
        return []
    return [
        Diagnosis(
            area=Area.BROKERS,
            condition="ADDRESS_NOT_ADVERTISED",
            problem="'brokerAddressMap' has addresses that no broker of these topics advertises",
            cause=", ".join(unknown),
            advice=f"Correct or remove them. Advertised are: {', '.join(sorted(servers.advertised))}.",
            severity=Severity.WARNING,
        )
    ]


def proxy_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return a diagnosis for each error of each proxy: warnings if any other proxy had no error, else problems."""
    failures = {address: errors for address, errors in servers.proxies.items() if errors}
    severity = Severity.WARNING if len(failures) < len(servers.proxies) else Severity.PROBLEM
    return [
        replace(
            _diagnosis(_Server(Area.NAME_SERVERS, f"proxy {address}", "Correct 'endpoints'"), error), severity=severity
        )
        for address, errors in failures.items()
        for error in errors
    ]


def unchecked_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return one warning that lists the servers that were not checked within the time limit; [] if all were checked."""
    if not servers.unchecked:
        return []
    return [
        Diagnosis(
            area=Area.BROKERS,
            condition="SERVERS_NOT_CHECKED",
            problem="Not all servers were checked within the time limit",
            cause=", ".join(servers.unchecked),
            advice="Correct the other problems first, or the slow network, and run the command again.",
            severity=Severity.WARNING,
        )
    ]


def _diagnosis(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of ``error``. The function for its condition in ``_BY_CONDITION`` builds it; if there is no
    such function, ``diagnosis_of`` does."""
    build = _BY_CONDITION.get(error.condition)
    return diagnosis_of(server.area, error, place=server.place) if build is None else build(server, error)


def _unreachable(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of a connection that could not be opened (CONNECT_FAILED). Cause and advice depend on the
    reason: an unknown host, a refused connection, a timeout, or another one."""
    cause = error.__cause__
    reason = str(error.context["reason"])
    if type(cause).__name__ == _UNKNOWN_HOST or _GRPC_UNKNOWN_HOST.search(reason):
        why = "the host name does not resolve"
        advice = f"{server.advice}, or correct DNS on this machine."
    elif isinstance(cause, ConnectionRefusedError) or reason == _GRPC_REFUSED:
        why = "the host refuses connections on this port"
        advice = f"{server.advice}, or start the server."
    elif isinstance(cause, TimeoutError):
        why = "no response to the attempt to connect"
        advice = f"{server.advice}, or open the firewall between this machine and the server."
    else:
        why, advice = reason, f"{server.advice}, and check the network."
    return _of(server, error, f"Cannot connect to {server.title}", why, advice)


def _unresponsive(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of a request without a response in time on an open connection (RESPONSE_TIMED_OUT)."""
    timeout_ms = error.context["timeout_ms"]
    why = f"it accepts connections, and returned nothing for {timeout_ms} ms"
    advice = f"{server.advice} if that is not RocketMQ's port, else check the server's log and load."
    return _of(server, error, f"No response from {server.title}", why, advice)


def _closing(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of CONNECTION_LOST, a connection that the server ended before its response. The error's
    reason is the cause. The advice is to correct the address or to read the server's log."""
    advice = f"{server.advice} if that is not RocketMQ's port, else check the server's log."
    problem = f"The connection to {server.title} ended without a response"
    return _of(server, error, problem, str(error.context["reason"]), advice)


def _other_protocol(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of a server that is not RocketMQ's (FRAME_TOO_LARGE, MALFORMED_FRAME); the advice has the
    default ports."""
    advice = f"{server.advice}: RocketMQ's name servers use port 9876 by default, brokers 10911, proxies 8080 and 8081."
    return _of(server, error, f"Not a RocketMQ server: {server.title}", "it responds in another protocol", advice)


def _untrusted(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of an untrusted certificate. An expired one gets the advice to renew it, since a CA file
    does not help. Any other gets ``diagnosis_of``, with the condition's texts."""
    if _EXPIRED not in str(error.context["reason"]):
        return diagnosis_of(server.area, error, place=server.place)
    advice = "Renew the server's certificate. If it is valid, correct this machine's clock."
    return _of(server, error, f"The TLS certificate of {server.title} has expired", "", advice)


def _plain_only(server: _Server, error: RocketMQError) -> Diagnosis:
    """Return the diagnosis of a server without TLS, for a job with ``useTLS`` (TLS_NOT_SUPPORTED)."""
    advice = "Set 'useTLS' to false, or set the server's 'tls.server.mode' to permissive or enforcing."
    problem = f"The job has useTLS=true, and {server.title} does not support TLS"
    return _of(server, error, problem, "it responds to plain requests only", advice)


def _of(server: _Server, error: RocketMQError, problem: str, cause: str, advice: str) -> Diagnosis:
    """Return a problem with these texts, the error's condition, the server's area and place, and its title as the
    subject."""
    return Diagnosis(
        area=server.area,
        condition=error.condition,
        problem=problem,
        cause=cause.rstrip("."),
        advice=advice,
        place=server.place,
        subject=server.title,
    )


_BY_CONDITION: Final[Mapping[str, _Build]] = MappingProxyType(
    {
        "CONNECT_FAILED": _unreachable,
        "RESPONSE_TIMED_OUT": _unresponsive,
        "CONNECTION_LOST": _closing,
        "FRAME_TOO_LARGE": _other_protocol,
        "MALFORMED_FRAME": _other_protocol,
        "TLS_CERTIFICATE_UNTRUSTED": _untrusted,
        "TLS_NOT_SUPPORTED": _plain_only,
    }
)
"""For conditions whose own texts do not show which option or server to correct."""
