"""The cost of a start, before any visitor: `python bench/start.py`.

Processor seconds do not depend on other programs. Each figure stands next to a reference, measured in the same run: the
libraries alone, which the app needs in any case.
"""

import compileall
import json
import math
import os
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.attack import serving_app
from bench.session import rss_mb

ROOT = Path(__file__).parent.parent
START_SECONDS, MB, COMPONENTS, EVENTS, PAGE_MB = 4.0, 900, 1000, 330, 1.4  # at most
CONFIG = "window.gradio_config = "
QUIET_SECONDS, PATIENCE_SECONDS = 4, 300
LIBRARIES = (
    "import gradio, torch, diffusers, transformers; from diffusers import StableDiffusion3Pipeline; "
    "from transformers import CLIPModel"
)
RSS = "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith(('VmRSS', 'RssA', 'RssF'))])"
KINDS = {
    "VmRSS": "resident, with the libraries",
    "RssAnon": "of it its own",
    "RssFile": "of it files, which programs share",
}


def cpu_seconds(pid):
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(*command, n_runs=3):
    """Least processor seconds of some runs of Python, and what the last one printed."""
    seconds, printed = [], ""
    for _ in range(n_runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        printed = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds), printed


def until_quiet(pid):
    """Wait until the app has prepared itself: until it uses no processor for some seconds."""
    end, last, since = time.monotonic() + PATIENCE_SECONDS, -1.0, time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < QUIET_SECONDS:
        time.sleep(0.5)
        if (now := cpu_seconds(pid)) > last + 0.1:
            last, since = now, time.monotonic()


def line(name, figure, reference, most=math.inf, unit=""):
    """Print a figure with its reference, their ratio and the bar, if there is one; true if it is below."""
    compared = f"{reference:>10,.2f}{figure / reference:>8.2f}" if reference else " " * 18
    bar = f"{most:>12,.2f}" if most < math.inf else " " * 12
    print(f"{name:<34}{figure:>12,.2f}{compared}{bar} {unit}", flush=True)
    return figure <= most


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed app is compiled
    compileall.compile_dir(ROOT / "bias_core", quiet=1)
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    print(f"{'':<34}{'figure':>12}{'reference':>10}{'ratio':>8}{'at most':>12}")
    gradio = cost("-c", "import gradio")[0]
    libraries = [int(kb) / 1e3 for kb in cost("-c", f"{LIBRARIES}; {RSS}", n_runs=1)[1].split()[-3:]]
    with TemporaryDirectory() as folder, serving_app(Path(folder)) as (url, pid):
        page = urllib.request.urlopen(url).read().decode()
        met = [line("page served, with import gradio", cpu_seconds(pid), gradio, START_SECONDS, "s")]
        until_quiet(pid)
        print(f"{'prepared':<34}{cpu_seconds(pid):>12,.2f}{'':>30} s")
        of_kinds = zip(KINDS.items(), libraries, (MB, math.inf, math.inf), strict=True)
        met += [line(name, rss_mb(pid, kind), alone, most, "MB") for (kind, name), alone, most in of_kinds]
    config, _ = json.JSONDecoder().raw_decode(page[page.index(CONFIG) + len(CONFIG) :])
    met.append(line("page", len(page.encode()) / 1e6, None, PAGE_MB, "MB"))
    met.append(line("components", len(config["components"]), None, COMPONENTS))
    met.append(line("events", len(config["dependencies"]), None, EVENTS))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
