"""Which network a request comes from, as far as that can be known; for limits only, and kept nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network


def network_of(headers: Mapping[str, str], peer: str) -> str:
    """The address of who asked; of IPv6 the network of one household.

    On a Space the peer is the Space's own proxy, which adds whom it speaks for to the end of
    ``X-Forwarded-For``: what stands before that anybody may have written. Elsewhere the header is believed by
    uvicorn alone, of the proxies in its ``FORWARDED_ALLOW_IPS``.

    Examples
    --------
    >>> network_of({}, "203.0.113.7"), network_of({}, "2001:db8:1:2:3:4:5:6")
    ('203.0.113.7', '2001:db8:1:2::/64')
    """
    if os.environ.get("SPACE_ID"):
        named = (_public(name.strip()) for name in reversed(headers.get("x-forwarded-for", "").split(",")))
        peer = next(filter(None, named), peer)
    try:
        address = ip_address(peer)
    except ValueError:
        return peer[:64]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return str(address)


def _public(name: str) -> str:
    try:
        return name if ip_address(name).is_global else ""
    except ValueError:
        return ""
