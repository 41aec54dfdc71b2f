"""Many runs at once close the page for nobody; who comes too late is told, and can ask again."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import httpx
import pytest
from starlette.datastructures import Headers

from bias_core.run.run_queue import get_client_network
from tests.attack.page import PREFIX, PageVisitor
from tests.ui.fakes import FakeServices
from tests.ui.served import serving_here

pytestmark = pytest.mark.filterwarnings("ignore:The value passed into gr.Dropdown:UserWarning")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An app with few places."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIAS_RUNS_AT_ONCE", "2")
        patch.setenv("BIAS_RUNS_WAITING", "10")
        services = FakeServices(folder / "data")
        with serving_here(services, folder) as found:
            yield found
    services.close()


@cache
def defaults(url):
    info = httpx.get(f"{url}{PREFIX}/info", timeout=30, verify=False).json()["named_endpoints"]["/explore"]
    return [parameter.get("parameter_default") for parameter in info["parameters"]]


def ask(url, concept):
    data = [concept, *defaults(url)[1:]]
    answer = httpx.post(f"{url}{PREFIX}/call/explore", json={"data": data}, timeout=30, verify=False)
    answer.raise_for_status()
    return str(answer.json()["event_id"])


def from_address(url, address):
    visitor = PageVisitor(url)
    visitor.client.headers["x-forwarded-for"] = address
    visitor.open()
    return visitor


@pytest.mark.parametrize("n_addresses", [1, 3])
def test_runs_that_hold_all_places_make_room_and_lose_nothing(small, n_addresses):
    greedy = [from_address(small.url, f"203.0.113.{i % n_addresses}") for i in range(3)]
    stranger = from_address(small.url, "198.51.100.1")
    shown = [[] for _ in greedy]

    def work(i):
        for message in greedy[i].press("generate", concept=f"slow greedy doctor {i} of {n_addresses}", explore_steps=8):
            shown[i].append(str(message["output"]) if "output" in message else "")
        return message["success"]

    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(work, i) for i in range(3)]
        while sum(any("of 16" in output for output in outputs) for outputs in shown) < 2:
            assert not any(run.done() for run in runs)
            time.sleep(0.05)
        *_, last, _ = stranger.press("generate", concept="nurse", n_images=4)
        assert "Done in" in str(last["output"])
        assert all(run.result(60) for run in runs)
    assert all("Done in" in outputs[-2] for outputs in shown)
    assert any("Paused for others" in output for outputs in shown for output in outputs)


def test_forty_runs_of_programs_hold_up_no_page_and_no_visitor(small):
    alone = PageVisitor(small.url).open()
    with ThreadPoolExecutor(8) as pool:
        events = list(pool.map(lambda i: ask(small.url, f"slow doctor {i}"), range(40)))
        other = PageVisitor(small.url)
        assert other.open() < 5 * max(1, alone)  # on an idle machine it takes less than one alone
        begun = time.monotonic()
        *_, last, ended = other.press("generate", concept="nurse")
        assert ended["success"]
        assert "Done in" in str(last["output"])
        assert time.monotonic() - begun < 20
        # The ninth that waits, and all after it, were told so at once.
        refused = [
            said for said in pool.map(lambda event: result_now(small.url, event), events) if "waiting already" in said
        ]
    assert len(refused) >= 25


def result_now(url, event):
    try:
        with httpx.stream("GET", f"{url}{PREFIX}/call/explore/{event}", timeout=0.5, verify=False) as lines:
            return "\n".join(lines.iter_lines())
    except httpx.TimeoutException:
        return ""


def test_a_header_that_a_stranger_sends_before_the_proxy_s_own_names_no_other_address(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "me/space")
    invented, real = (b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-for", b"8.8.8.8")
    for headers in ([invented, real], [(b"x-forwarded-for", b"1.2.3.4, 8.8.8.8")], [real]):
        assert get_client_network(Headers(raw=headers), "10.0.0.1") == "8.8.8.8"
