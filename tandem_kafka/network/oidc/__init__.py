"""Tokens for OAUTHBEARER from a token endpoint: OAuth 2.0, as in OpenID Connect (KIP-768).

`tokens.py` keeps the token of a consumer, `endpoint.py` requests it, and `exchange.py` is the
connection.
"""

from tandem_kafka.network.oidc.tokens import OidcTokens

__all__ = ["OidcTokens"]
