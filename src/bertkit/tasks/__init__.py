"""Labelled tasks: classification and tagging as entries of one registry, tuning, scoring."""
