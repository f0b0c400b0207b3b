"""API keys for tests: that of the settings, and others that it makes."""

ADMIN = "a-key-of-the-settings"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


async def key_of(client, **terms):
    """The header with a new key of these terms; by default it may invoke models."""
    terms = {"name": "agent", "scopes": ["invoke"], **terms}
    made = await client.post("/v1/keys", json=terms, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    return bearer(made.json()["key"])
