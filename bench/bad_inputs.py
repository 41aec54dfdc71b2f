"""Try every bad value for every parameter of every endpoint: `python -m bench.bad_inputs [http://127.0.0.1:7860]`."""

import sys
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import httpx

from tests.attack.bad_inputs import call, fault, mcp_calls, odd_calls, parameters, table
from tests.ui.served import serving

PATIENCE_SECONDS = 5.0


def answers(client, declared):
    """Yield each call, the fault of its answer ("" for none), and its seconds."""
    for endpoint, words, content in [*odd_calls(declared), *table(declared)]:
        answer = call(client, endpoint, content)
        yield f"{endpoint} {words}", fault(answer), answer.seconds


def attack(url):
    """Return the number of calls, and the calls with a wrong answer."""
    faults, n = [], 0
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        declared = parameters(client)
        for words, said, seconds in chain(answers(client, declared), mcp_calls(client, declared)):
            n += 1
            if said or seconds > PATIENCE_SECONDS:
                faults.append(f"{words}: {said or 'answered'} after {seconds:.1f} s")
        alive = client.get("/").status_code == 200
    return n, faults if alive else [*faults, "the page is gone"]


def main():
    given = sys.argv[1:]
    with TemporaryDirectory() as folder:
        server = nullcontext(SimpleNamespace(url=given[0])) if given else serving(Path(folder))
        with server as served:
            n, faults = attack(served.url)
            print(*faults, sep="\n")
            said = f"{n:,} calls, {len(faults):,} without a clear answer within {PATIENCE_SECONDS:.0f} seconds"
            print(said, flush=True)  # before the server ends, which may still be at work on what it took
    if faults:
        sys.exit(1)


if __name__ == "__main__":
    main()
