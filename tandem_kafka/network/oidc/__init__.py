"""Tokens for OAUTHBEARER from a token endpoint: OAuth 2.0, as in OpenID Connect (KIP-768)."""

from tandem_kafka.network.oidc.tokens import OidcTokens

__all__ = ["OidcTokens"]
