"""Plant faults one at a time and see whether the tests find them: `python scripts/plant_faults.py --help`.

Each fault of faults.yaml replaces a line of `bias_core` in a copy of the tree. Its module's own tests run first, then
those that import the module; a fault that they miss is run against all tests. Prints a line per fault, and exits with
1 if one survived.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
MOST_SECONDS = 1800  # of one call of pytest: a fault that lets a test run for ever is found, too
COPIED = ("app.py", "assets", "bias_core", "docs", "pyproject.toml", "tests", "training", "validation", "scripts")
COPIED += ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "requirements.txt", "bench", ".ci")
COPIED += ("requirements-dev.txt", "requirements.lock", "setup.py", "LICENSE")


def place_of(fault: dict, root: Path) -> Path:
    """The file of ``bias_core`` in which the line stands; SystemExit unless it stands there exactly once."""
    files = [path for path in sorted((root / "bias_core").rglob("*.py")) if fault["find"] in path.read_text()]
    if len(files) != 1 or files[0].read_text().count(fault["find"]) != 1:
        sys.exit(f"{fault['name']}: stands in {len(files)} files, not once: {fault['find']}")
    return files[0]


def tests_naming(module: Path, root: Path) -> tuple[list[str], list[str]]:
    """Test files that share the module's name, and others that import it, those with the most mentions first."""
    dotted = ".".join(module.relative_to(root).with_suffix("").parts)
    package, _, stem = dotted.rpartition(".")
    words = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    own, counts = [], {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        name, n = str(path.relative_to(root)), len(words.findall(path.read_text()))
        if "browser" in path.parts:
            continue
        if path.stem == f"test_{stem}":
            own.append(name)
        elif n:
            counts[name] = n
    return own, sorted(counts, key=lambda name: -counts[name])


def finds(root: Path, *args: str) -> tuple[str, float]:
    """The first test that fails, or "" where all pass, and the seconds that took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *args]
    env = os.environ | {"BIAS_TEST_SLOW": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return f"none of {', '.join(args)} ended in {MOST_SECONDS} s", time.monotonic() - began
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    if done.returncode not in (0, 1, 2, 5):  # 5: no test was chosen
        sys.exit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return (failed[0] if failed else "?" * (done.returncode in (1, 2))), time.monotonic() - began


def main() -> int:
    """Plant what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="faults by their names (default: all)")
    parser.add_argument("--list", action="store_true", help="only check that each fault can be planted")
    parser.add_argument("--near", action="store_true", help="only run the tests that name the module")
    options = parser.parse_args()
    faults = yaml.safe_load((Path(__file__).parent / "faults.yaml").read_text())
    faults = [fault for fault in faults if not options.names or fault["name"] in options.names]
    for fault in faults:
        place_of(fault, ROOT)
    if options.list:
        print(f"{len(faults)} faults can be planted")
        return 0
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source, target = ROOT / name, copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.is_file():
                shutil.copy2(source, target)
        for fault in faults:
            module = place_of(fault, copy)
            text = module.read_text()
            module.write_text(text.replace(fault["find"], fault["put"]))
            name = str(module.relative_to(copy))
            own, others = tests_naming(module, copy)
            stages = [
                [name, *own],
                [*others, "-m", "not slow"] if others else [],
                [*others, "-m", "slow"] if others else [],
            ]
            if not options.near:
                stages.append(["-n", "2", "--dist", "loadfile", "-m", "not browser"])
            found, seconds = "", 0.0
            for stage in filter(None, stages):
                if not found:
                    found, further = finds(copy, *stage)
                    seconds += further
            module.write_text(text)
            survived += not found
            print(
                f"{fault['name']:26} {fault['kind']:15} {name:48} {seconds:5.0f} s  {found or 'SURVIVED'}", flush=True
            )
    print(f"{len(faults) - survived} of {len(faults)} faults were found")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
