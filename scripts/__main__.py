"""`python -m scripts` is `slimtune`."""

from scripts.main import main

main()
