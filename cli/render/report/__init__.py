"""The report as text: findings, totals, lines with their source, functions, and what the columns mean."""

from .report import functions_text, header, report_text

__all__ = ["functions_text", "header", "report_text"]
