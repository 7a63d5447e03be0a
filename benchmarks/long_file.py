"""The cost of the rollout gate over many rows: processor seconds of the gate and its server.

    cd my_env/nemo_gym && uv run python TEMPLATE/benchmarks/long_file.py ROWS.jsonl

`make_rows.py --train 10000` makes such a file. Run it with two releases of the template in
turn, and compare only their ratio.
"""

import resource
import subprocess
import sys
import time


def main() -> None:
    started = time.monotonic()
    command = [sys.executable, "gates.py", "rollout", "--rows", sys.argv[1]]
    status = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{used.ru_utime + used.ru_stime:.1f} s of a processor, "
        f"{time.monotonic() - started:.1f} s, exit status {status}"
    )


if __name__ == "__main__":
    main()
