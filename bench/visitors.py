"""Memory of the app after many visitors, who must see only their own runs: `python -m bench.visitors [250]`.

Each opens the page and draws a concept of their own. Then the server's memory should be back near its start, and no
visitor may have seen another's concept.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.attack import serving_app
from bench.bars import bar, end, held
from bench.session import rss_mb
from tests.attack.page import PageVisitor

WARM_UP, AT_ONCE, N_PICTURES = 10, 3, 8
MOST_GROWN_MB = 100


def concept(number):
    """Concept name of letters only, so that none contains another."""
    letters = "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}")
    return f"nurse {letters}"


def visit(url, number):
    """Return True if the visitor saw their own run, and its seconds."""
    begun = time.monotonic()
    visitor = PageVisitor(url, patience=300)
    visitor.open()
    steps = visitor.press("generate", concept=concept(number), n_images=N_PICTURES, model="calibration-renderer")
    *_, before, last = steps  # the last message has no news, but that the run went well
    visitor.client.close()
    shown = str(before["output"])
    others = [other for other in range(max(0, number - 20), number + 20) if other != number]
    is_own = last["success"] and concept(number) in shown
    return is_own and not any(concept(other) in shown for other in others), time.monotonic() - begun


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 250
    with TemporaryDirectory() as folder, serving_app(Path(folder)) as (url, pid):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda number: visit(url, 9000 + number), range(WARM_UP)))
            before = rss_mb(pid)
            seen = list(pool.map(lambda number: visit(url, number), range(n)))
        at_end = rss_mb(pid)
        time.sleep(5)
        after = rss_mb(pid)
    wrong = sum(not is_own for is_own, _ in seen)
    seconds = sorted(took for _, took in seen)
    print(f"{n} visitors: {before:.0f} MB before, {at_end:.0f} MB at their end, {after:.0f} MB 5 s later")
    print(
        f"grown by {after - before:.0f} MB {bar(after - before, most=MOST_GROWN_MB)}; "
        f"{wrong} mixed up: {held(not wrong)}"
    )
    print(f"a visit took {seconds[n // 2]:.1f} s, the slowest {seconds[-1]:.1f} s, {AT_ONCE} at a time")


if __name__ == "__main__":
    main()
    end()
