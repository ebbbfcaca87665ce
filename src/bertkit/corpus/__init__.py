"""Tokens on disk: the format, its reader, and the preparation from text."""
