"""The page about a run: what was trained from what, how well, and how to do it again."""

from finetune.report.page import write_report

__all__ = ["write_report"]
