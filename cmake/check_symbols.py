"""Part of the build: no function outside the namespace of its instruction set may be shared by the linker.

Functions that several object files define, such as those of templates, are merged: the linker keeps one of them, which
may have been compiled for a newer processor than the one at hand. ``python check_symbols.py nm object.o...``
"""

import subprocess
import sys

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


def shared_functions(nm: str, file: str) -> list[str]:
    """The weak symbols of an object file that do not belong to an instruction set."""
    lines = subprocess.run([nm, file], capture_output=True, text=True, check=True).stdout.splitlines()
    weak = [line.split()[-1] for line in lines if len(line.split()) == 3 and line.split()[1] in "Wu"]
    return [name for name in weak if not any(f"{len(own)}{own}" in name for own in INSTRUCTION_SETS)]


if __name__ == "__main__":
    found = {file: names for file in sys.argv[2:] if (names := shared_functions(sys.argv[1], file))}
    for file, names in found.items():
        print(f"{file} has functions that the linker may share between instruction sets: {', '.join(names)}")
    sys.exit(1 if found else 0)
