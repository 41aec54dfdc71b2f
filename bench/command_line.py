"""Processor seconds of `--help`, and of a stored run that is repeated: `python bench/command_line.py`.

References are plain imports in a process of their own, so that the bars hold on a busy machine.
"""

import os
import resource
import subprocess
import sys
from tempfile import TemporaryDirectory

from bench.bars import bar, end, held

HELP = {  # libraries and the most times of their import, by the command whose help is shown
    (): ("import typer, rich", 3.0),
    ("explore",): ("import typer, rich.table, pydantic, yaml", 5.0),
}
RUN_LIBRARIES = "import typer, pydantic, pandas, scipy.stats, huggingface_hub, PIL.Image, jinja2"
MOST_AGAIN = 2.5
COUNTS = (8, 32, 128)  # pictures of a run that is repeated
STUDIES = {
    "pst-occupations": ("--scale", "0.01"),
    "pst-fairness": ("--scale", "0.01"),
    "tbyb-general": ("--scale", "0.001"),
    "oasis-nationalities": ("--scale", "0.02"),
    "oasis-stop": ("--scale", "0.02", "--option", "n_candidates=32"),
}
TRIES = 3
AGAIN = """
import runpy, sys
try:
    runpy.run_module("bias_core", run_name="__main__")
finally:
    print("\\nloaded:", *sorted({"torch", "diffusers", "transformers"} & set(sys.modules)), file=sys.stderr)
"""


def measured(*arguments: str, data: str = "") -> tuple[float, str]:
    """Processor seconds of a Python process, and the model libraries that it says it loaded."""
    environment = os.environ | {"BIAS_DATA_DIR": data, "BIAS_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stderr.rpartition("loaded:")[2].strip()


def least(*arguments: str, data: str = "") -> float:
    return min(measured(*arguments, data=data)[0] for _ in range(TRIES))


def main() -> None:
    for command, (libraries, most) in HELP.items():
        plain, seconds = least("-c", libraries), least("-m", "bias_core", *command, "--help")
        name = " ".join((*command, "--help"))
        ratio = seconds / plain
        print(f"{name}: {seconds:.2f} s, {ratio:.1f} times its libraries' import {bar(ratio, most=most)}")
    plain = least("-c", RUN_LIBRARIES)
    with TemporaryDirectory() as data:
        explored = ("explore", "doctor", "-n")
        runs = {f"{n} rendered pictures": (*explored, str(n), "--model", "calibration-renderer") for n in COUNTS}
        runs["8 pictures of the diffusion model"] = (*explored, "8")
        runs |= {study: ("study", "run", study, *how) for study, how in STUDIES.items()}
        for title, run in runs.items():
            measured("-m", "bias_core", *run, data=data)
            repeated = ["-c", AGAIN, *run]
            tries = [measured(*repeated, data=data) for _ in range(TRIES)]
            seconds, loaded = min(one[0] for one in tries), tries[0][1]
            print(
                f"again, {title}: {seconds:.2f} s, {seconds / plain:.1f} times its libraries' import "
                f"{bar(seconds / plain, most=MOST_AGAIN)}; model libraries: {loaded or 'none'}, {held(not loaded)}"
            )


if __name__ == "__main__":
    main()
    end()
