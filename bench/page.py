"""Opening the page on a slow processor, next to another version: `python -m bench.page OTHER_CHECKOUT [ROUNDS]`.

Both versions serve at once, and are opened in turn by new visitors in a Chromium slowed four times. It prints the
medians of each and their ratio: seconds until the form can be seen, seconds of scripts until then, seconds of the
server's processor for a visit, the size of ``/config``, and the server's memory at the end.
"""

import json
import statistics
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from playwright.sync_api import sync_playwright

from bench.first_minute import PATIENCE_MS, app
from tests.browser.conftest import FLAGS, _chromium

SLOWED = 4
PAGES = {"Explore": ("", "#generate"), "Paired": ("?tab=paired", "#paper-run, #paired-run")}
AFTER_MS = 3000  # until the page has asked for what it shows at first
COLUMNS = "form", "scripts", "server"


def open_once(browser, url, process, button):
    """Return seconds until the form can be seen, of scripts, and of the server's processor."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable")
    tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
    before = process.cpu_times()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(button, state="visible")
    form = page.evaluate("performance.now() / 1000")
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    page.wait_for_timeout(AFTER_MS)
    after = process.cpu_times()
    context.close()
    return form, metrics["ScriptDuration"], after.user + after.system - before.user - before.system


def main():
    """Print the table."""
    if not sys.argv[1:]:
        print("not measured: name another checkout to compare with")
        return
    other, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    roots = {"other": other, "this": Path(__file__).resolve().parent.parent}
    with ExitStack() as stack, sync_playwright() as playwright:
        servers = {}
        for name, root in roots.items():
            folder = Path(stack.enter_context(TemporaryDirectory()))
            url, number = stack.enter_context(app(folder, root))
            servers[name] = url, psutil.Process(number)
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        times = {(page, name): [] for page in PAGES for name in servers}
        for _ in range(rounds + 1):  # the first one warms up
            for page, (query, button) in PAGES.items():
                for name, (url, process) in servers.items():
                    times[page, name].append(open_once(browser, f"{url}/{query}", process, button))
        browser.close()
        for page in PAGES:
            for place, column in enumerate(COLUMNS):
                old, new = (statistics.median(one[place] for one in times[page, name][1:]) for name in servers)
                print(f"{page:8} {column:8} {old:6.2f} s {new:6.2f} s  ratio {new / old:.2f}", flush=True)
        for name, (url, process) in servers.items():
            with urllib.request.urlopen(f"{url}/config") as answer:
                config = json.loads(text := answer.read())
            print(
                f"{name}: {len(config['components'])} components, {len(config['dependencies'])} events, "
                f"{len(text) / 1e6:.2f} MB of config, {process.memory_info().rss / 1e6:.0f} MB of memory"
            )


if __name__ == "__main__":
    main()
