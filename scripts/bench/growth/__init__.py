"""Cost against size: each job at several sizes, each run a process of its own.

    python -m scripts.bench.growth [AXIS ...] [--largest N] --out docs/growth

writes a table, every figure as JSON, and a plot an axis. docs/growth.md says what is measured.
"""
