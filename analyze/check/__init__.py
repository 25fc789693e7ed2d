"""Checks recordings against a budget of limits."""
