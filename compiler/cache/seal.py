"""The seal: shows that what is in a store was put there by one who knows the secret."""

import hashlib
import hmac

from compiler.errors import CorruptUnit

_MAC_BYTES = hashlib.sha256().digest_size


def sealed(content: bytes, key: str, secret: bytes) -> bytes:
    """`content` behind an HMAC-SHA-256 over it and the key it is stored under."""
    return _mac(content, key, secret) + content


def unsealed(stored: bytes, key: str, secret: bytes) -> bytes:
    """What `sealed` wrapped.

    Raises:
        CorruptUnit: altered, cut short, or stored under another key or secret.
    """
    mac, content = stored[:_MAC_BYTES], stored[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, key, secret)):
        raise CorruptUnit("it is not authentic")
    return content


def _mac(content: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + content, "sha256")
