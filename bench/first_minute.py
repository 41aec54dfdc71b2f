"""A newcomer's first minute in a real browser, on the embedded model: `python bench/first_minute.py [RUNS]`.

The app starts on an empty data folder for every run. It prints medians next to their limits on two idle cores, which
are larger on slower ones, as the server's start tells. `cpu` is the server's processor time, which a busy machine does
not change.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Error, sync_playwright

from bench.bars import bar, end
from tests.browser.conftest import FLAGS, _chromium

ROOT = Path(__file__).parent.parent
PAGE, FORMING, FINISHED, CACHED, TAB = "page ready", "first forming", "sixteen with scores", "cached", "slowest tab"
MOST = {PAGE: 2.5, FORMING: 1.5, FINISHED: 3.0, CACHED: 1.5, TAB: 1.5}
START = "server answers"
START_SECONDS = 3.93  # of the processor, where the limits were set
PATIENCE_MS = 120_000
SETTLE_SECONDS = float(os.environ.get("BENCH_SETTLE_SECONDS", "15"))  # after the start, as on a server that is up
READY = "document.querySelector('#generate')?.offsetParent && localStorage.getItem('t2i-bias-visitor')"
DRAWING = "document.querySelector('#explore-drawing .forming img')"
DONE = "document.querySelector('#status')?.innerText.startsWith('Done') && document.querySelector('#header h2')"
SHOWN = """() => [...document.querySelectorAll('#paper-header, #calibration-header')]
  .find(header => header.offsetParent)?.innerText"""
SHOWS = f"([key, before]) => window.openKey() === key && ({SHOWN})() && ({SHOWN})() !== before"
WITH_EXAMPLE = ("association", "paired", "objects", "internal", "origins", "calibration")


@contextmanager
def app(folder, root=ROOT):
    """Start the app of a checkout as its users do; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        "PYTHONPATH": str(root),
        "BIAS_DATA_DIR": str(folder / "data"),
        "BIAS_PORT": str(port),
        "GRADIO_TEMP_DIR": str(folder / "cache"),
    }
    with (folder / "log").open("wb") as log:
        command = [sys.executable, str(root / "app.py")]
        process = subprocess.Popen(command, cwd=root, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}").close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(timeout=120)


def cpu_seconds(pid):
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Clock: seconds since its start, and the server's processor seconds."""

    def __init__(self, pid):
        self.pid, self.began, self.cpu = pid, time.perf_counter(), cpu_seconds(pid)

    def read(self):
        """Return both times so far."""
        return time.perf_counter() - self.began, cpu_seconds(self.pid) - self.cpu


def visit(browser, url):
    """Open a new visitor's page and wait until it is ready."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url, wait_until="commit")
    page.wait_for_function(READY)
    return page


def generate(page, watch, *, forming):
    """Press the button; return the times of the first forming pictures and of the result."""
    page.click("#generate")
    first = None
    if forming:
        page.wait_for_function(f"{DRAWING} || ({DONE})")
        first = watch.read() if page.evaluate(f"!!{DRAWING}") else None
    page.wait_for_function(DONE)
    return first, watch.read()


def measure(browser, folder):
    """Seconds and the server's processor seconds, by awaited event."""
    times = {}
    started = time.perf_counter()
    with app(folder) as (url, pid):
        times[START] = time.perf_counter() - started, cpu_seconds(pid)
        time.sleep(SETTLE_SECONDS)
        watch = Watch(pid)
        page = visit(browser, url)
        times[PAGE] = watch.read()
        page.wait_for_timeout(1500)
        first, done = generate(page, Watch(pid), forming=True)
        times |= {FORMING: first or (float("nan"), float("nan")), FINISHED: done}
        again = visit(browser, url)
        again.wait_for_timeout(1500)
        times[CACHED] = generate(again, Watch(pid), forming=False)[1]
        for key in WITH_EXAMPLE:
            before, watch = again.evaluate(SHOWN), Watch(pid)
            again.evaluate("(key) => window.openTab(key)", key)
            again.wait_for_function(SHOWS, arg=[key, before])
            times[f"tab {key}"] = watch.read()
        times[TAB] = max(times[f"tab {key}"] for key in WITH_EXAMPLE)
        for one in (page, again):
            one.context.close()
    return times


def main():
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    runs = []
    with sync_playwright() as playwright:
        for _ in range(n_runs):
            try:
                browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
            except Error as error:
                sys.exit(f"not measured, no Chromium: {str(error).splitlines()[0]}")
            with TemporaryDirectory() as folder:
                runs.append(measure(browser, Path(folder)))
            browser.close()
    print(f"{n_runs} runs, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    slower = max(1.0, statistics.median(run[START][1] for run in runs) / START_SECONDS)
    print(f"the limits of cores {slower:.2f} times as slow as those on which they were set")
    print(f"{'':<22}{'median s':>10}{'slowest':>10}{'server cpu':>12}")
    for name in runs[0]:
        seconds, cpu = zip(*(run[name] for run in runs), strict=True)
        middle = statistics.median(seconds)
        said = bar(middle, most=round(slower * MOST[name], 2)) if name in MOST else ""
        print(f"{name:<22}{middle:>10.2f}{max(seconds):>10.2f}{statistics.median(cpu):>12.2f}  {said}")


if __name__ == "__main__":
    main()
    end()
