"""./scripts/docs: builds the site.

./scripts/docs [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

from checkpoints.errors import SlimtuneError
from scripts.documentation.site import build_site


def main(arguments: list[str]) -> int:
    """Builds into OUT, `build/site` if left out, and says where it is."""
    out = Path(arguments[0]) if arguments else Path("build/site")
    try:
        sys.stdout.write(f"{build_site(out)}\n")
    except SlimtuneError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
