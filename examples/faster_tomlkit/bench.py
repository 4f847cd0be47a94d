"""The score: the million instructions of work.py beyond those of its start. The same on a busy machine."""

import json
import os
import re
import subprocess
import sys

# Addresses and hashes that differ from run to run would change the count.
_COUNT = ("setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def main() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*_COUNT, sys.executable, "-S", "work.py"]
    runs = [
        subprocess.Popen([*command, *more], env=environment, stderr=subprocess.PIPE, text=True)
        for more in ([], ["start"])
    ]
    said = [run.communicate()[1] for run in runs]
    if any(run.returncode for run in runs):
        sys.exit("\n".join(said))
    whole, start = (int(re.search(r"I\s+refs:\s+([\d,]+)", text)[1].replace(",", "")) for text in said)
    print(json.dumps({"million_instructions": (whole - start) / 1e6}))


if __name__ == "__main__":
    main()
