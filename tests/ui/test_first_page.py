"""The page is made once for each address, small on the line, and starts without what Gradio watches in vain."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from bias_core.app.first_page import FirstPage
from bias_core.ui.templates import script

_CONFIG = '<script>window.gradio_config = {"a": "\\u003cscript\\u003e"};</script>'
_INFO = "<script>window.gradio_api_info = {};</script>"


class Pages:
    """An app that counts what it makes, and says to whom."""

    def __init__(self, status=200):
        self.n, self.status = 0, status

    def answer(self, request):
        self.n += 1
        said = f"{request.url.hostname} {request.query_params.get('page', '')} {self.n}"
        return HTMLResponse(_CONFIG + _INFO + said, status_code=self.status)

    def client(self):
        routes = [Route("/{path:path}", self.answer, methods=["GET", "POST"])]
        return TestClient(Starlette(routes=routes, middleware=[Middleware(FirstPage)]))


def test_one_address_is_answered_with_one_page_whatever_a_link_asks_for():
    pages = Pages()
    with pages.client() as client:
        texts = [client.get(f"http://here{path}").text for path in ("/", "/?model=a", "/?concept=doctor#results")]
    assert pages.n == 1
    assert set(texts) == {texts[0]}
    assert texts[0].endswith("here  1")


def test_what_could_be_another_page_is_made():
    here = "http://here/"
    urls = ("http://there/", "https://here/", f"{here}?page=runs", f"{here}?deep_link=1", f"{here}config")
    headers = ({"x-forwarded-proto": "https"}, {"x-forwarded-host": "there"})
    for asked in (*({"url": url} for url in urls), *({"headers": one} for one in headers), {"method": "POST"}):
        pages = Pages()
        with pages.client() as client:
            client.get(here)
            assert client.request(**{"method": "GET", "url": here} | asked).text.endswith("2"), asked
        assert pages.n == 2


def test_an_answer_that_is_no_page_is_not_kept():
    pages = Pages(status=503)
    with pages.client() as client:
        for n in (1, 2):
            answer = client.get("http://here/")
            assert answer.status_code == 503
            assert answer.text == f"{_CONFIG}{_INFO}here  {n}"


def test_the_script_stands_once_after_the_description_and_before_all_that_reads_it():
    with Pages().client() as client:
        text = client.get("http://here/").text
    assert text.startswith(_CONFIG)
    quick = f"{{{script('constant')}}}"
    assert text.count(quick) == 1
    assert text == f"{_CONFIG}{_INFO.replace('>', f'>{quick}', 1)}here  1"
