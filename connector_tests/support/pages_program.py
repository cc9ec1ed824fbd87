"""A program that runs the scripts of several pages one after another in one Spark, as a reader of all of them would.

It gets the path of a script with each line of its standard input, and prints ``END_OF_PAGE`` after what the script has
printed. A script that fails ends the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

END_OF_PAGE: Final = "======== end of page ========\n"


def main() -> None:
    for line in sys.stdin:
        script = Path(line.strip())
        exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "__main__"})
        sys.stdout.write(END_OF_PAGE)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
