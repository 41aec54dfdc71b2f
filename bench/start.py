"""The cost of a start, before any visitor: `python bench/start.py`.

Processor seconds do not depend on other programs. Each figure stands next to a reference, measured in the same run: the
libraries alone, which the app needs in any case.
"""

import compileall
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.attack import serving_app
from bench.bars import bar, end
from bench.session import rss_mb

ROOT = Path(__file__).parent.parent
START_SECONDS, MB, COMPONENTS, EVENTS, PAGE_MB = 4.0, 900, 1000, 330, 1.4  # at most
START_TIMES, TIMES = 1.55, 1.35  # of the libraries alone, at most
SHARE = 0.75  # of a bar: if the libraries alone take that, the bar cannot be met
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


def line(name, figure, reference, most=None, times=None, unit=""):
    """Print a figure with its bar, its reference, and how many times that it is, with the bar of this ratio."""
    # Then the bar was set for a faster machine or smaller libraries.
    why = f"the libraries alone take {reference:,.2f}" if most and reference and reference >= SHARE * most else ""
    ratio = figure / reference if reference else 0
    said = (
        f"{name:<34}{figure:>10,.2f} {unit}",
        most and bar(figure, most=most, why=why),
        ratio and f"{ratio:.2f} times {reference:,.2f}",
        times and bar(ratio, most=times),
    )
    print(*filter(None, said), flush=True)


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed app is compiled
    compileall.compile_dir(ROOT / "bias_core", quiet=1)
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    gradio = cost("-c", "import gradio")[0]
    libraries = [int(kb) / 1e3 for kb in cost("-c", f"{LIBRARIES}; {RSS}", n_runs=1)[1].split()[-3:]]
    with TemporaryDirectory() as folder, serving_app(Path(folder)) as (url, pid):
        page = urllib.request.urlopen(url).read().decode()
        line("page served, with import gradio", cpu_seconds(pid), gradio, START_SECONDS, START_TIMES, "s")
        until_quiet(pid)
        line("prepared", cpu_seconds(pid), None, unit="s")
        for (kind, name), alone, bars in zip(KINDS.items(), libraries, ((MB, TIMES), (), ()), strict=True):
            line(name, rss_mb(pid, kind), alone, *bars, unit="MB")
    config, _ = json.JSONDecoder().raw_decode(page[page.index(CONFIG) + len(CONFIG) :])
    line("page", len(page.encode()) / 1e6, None, PAGE_MB, unit="MB")
    line("components", len(config["components"]), None, COMPONENTS)
    line("events", len(config["dependencies"]), None, EVENTS)


if __name__ == "__main__":
    main()
    end()
