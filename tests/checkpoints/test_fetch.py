import json
import random
import re

import pytest

from checkpoints import fetch as fetching
from checkpoints.errors import DownloadError
from checkpoints.fetch import CHUNK_BYTES, RetryPolicy, fetch

DATA = random.Random(1).randbytes(300_000)
HALF = len(DATA) // 2


@pytest.fixture
def waits():
    return []


@pytest.fixture
def get(http_server, tmp_path, heard, waits):
    """Fetches /a as people would, but without waiting; gives (Fetched, bytes)."""
    http_server.files["/a"] = DATA
    partial = tmp_path / "a.partial"

    def run(url=None, **policy):
        fetched = fetch(
            http_server.url("/a") if url is None else url,
            partial,
            description="a",
            next_step="What to do.",
            progress=heard,
            policy=RetryPolicy(sleep=waits.append, **policy),
        )
        return fetched, partial.read_bytes()

    return run


def test_a_whole_file(get, http_server, heard):
    fetched, data = get()
    assert (fetched.size, fetched.resumed) == (len(DATA), 0)
    assert data == DATA
    assert (heard.total, sum(heard.advanced)) == (len(DATA), len(DATA))
    assert http_server.requests[0][1]["accept-encoding"] == "identity"
    assert heard.said == []


@pytest.mark.parametrize("validators", [True, False])
def test_a_cut_connection_is_resumed(get, http_server, heard, waits, validators):
    http_server.validators = validators
    http_server.faults["/a"] = [http_server.Fault(cut_at=HALF)]
    fetched, data = get()
    assert data == DATA
    assert fetched.resumed == HALF
    assert http_server.ranges_asked() == [None, f"bytes={HALF}-"]
    assert ("if-range" in http_server.requests[1][1]) == validators
    assert waits == [1.0]
    assert "the connection was cut" in heard.said[0]
    assert heard.said[1] == "a: resuming at 0.1 MB."


def test_an_earlier_call_is_resumed(get, http_server):
    http_server.faults["/a"] = [http_server.Fault(cut_at=1000)]
    with pytest.raises(DownloadError, match=r"cut.* given up at attempt 1"):
        get(attempts=1)
    fetched, data = get()
    assert (fetched.resumed, data) == (1000, DATA)


def test_another_file_of_the_same_name_is_not_mixed_in(get, http_server, heard):
    http_server.faults["/a"] = [http_server.Fault(cut_at=HALF)]
    with pytest.raises(DownloadError):
        get(attempts=1)
    http_server.files["/a"] = bytes(reversed(DATA))
    fetched, data = get()
    assert data == bytes(reversed(DATA))
    assert fetched.resumed == 0
    assert heard.said == ["a: the server starts from the beginning."]


def test_a_partial_file_of_another_address_is_not_used(get, http_server):
    http_server.faults["/a"] = [http_server.Fault(cut_at=HALF)]
    with pytest.raises(DownloadError):
        get(attempts=1)
    http_server.files["/b"] = DATA[::-1]
    fetched, data = get(http_server.url("/b"))
    assert (fetched.resumed, data) == (0, DATA[::-1])


def test_a_server_without_ranges(get, http_server):
    http_server.ranges = False
    http_server.faults["/a"] = [http_server.Fault(cut_at=HALF)] * 2
    fetched, data = get()
    assert (fetched.resumed, data) == (0, DATA)


def test_what_was_complete_already_is_not_sent_again(get, http_server, tmp_path):
    get()
    fetched, data = get()
    assert (fetched.resumed, data) == (len(DATA), DATA)
    assert http_server.ranges_asked() == [None, f"bytes={len(DATA)}-"]


def test_a_range_beyond_a_file_that_shrank_starts_again(get, http_server):
    http_server.validators = False
    get()
    http_server.files["/a"] = DATA[:HALF]
    fetched, data = get()
    assert (fetched.resumed, data) == (0, DATA[:HALF])


@pytest.mark.parametrize(
    "content_range",
    ["bytes 0-299999/300000", f"bytes {HALF}-299999/400000", f"bytes {HALF}-200000/300000", ""],
)
def test_an_answer_with_another_range_is_thrown_away(get, http_server, heard, content_range):
    Fault = http_server.Fault
    http_server.faults["/a"] = [
        Fault(cut_at=HALF),
        Fault(headers={"Content-Range": content_range}),
    ]
    fetched, data = get()
    assert (fetched.resumed, data) == (0, DATA)
    assert f"another range (Content-Range: {content_range!r})" in heard.said[1]


def test_a_server_that_sends_pieces_only(get, http_server):
    piece = http_server.Fault(
        status=206,
        body=DATA[HALF : HALF + 1000],
        headers={"Content-Range": f"bytes {HALF}-{HALF + 999}/{len(DATA)}"},
    )
    http_server.faults["/a"] = [http_server.Fault(cut_at=HALF), piece]
    fetched, data = get()
    assert (fetched.resumed, data) == (HALF + 1000, DATA)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again(get, http_server, waits, heard, status):
    http_server.faults["/a"] = [http_server.Fault(status=status)] * 3
    assert get()[1] == DATA
    assert waits == [1.0, 2.0, 4.0]
    assert f"the server answered {status}" in heard.said[0]


def test_retry_after_is_heeded(get, http_server, waits):
    http_server.faults["/a"] = [
        http_server.Fault(status=429, headers={"Retry-After": "17"}),
        http_server.Fault(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        http_server.Fault(status=503, headers={"Retry-After": "soon"}),
    ]
    assert get()[1] == DATA
    assert waits == [17.0, 2.0, 4.0]


def test_a_server_that_asks_for_too_long_is_given_up(get, http_server, waits):
    http_server.faults["/a"] = [http_server.Fault(status=503, headers={"Retry-After": "86400"})]
    with pytest.raises(DownloadError, match=r"503.* asks to wait 86400 s"):
        get()
    assert waits == []


def test_it_gives_up_in_the_end(get, http_server, waits):
    http_server.faults["/a"] = [http_server.Fault(status=500)] * 9
    with pytest.raises(DownloadError, match=r"answered 500 .*given up at attempt 5") as caught:
        get()
    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert caught.value.next_step == "What to do."


def test_attempts_that_bring_much_do_not_count(get, http_server, waits):
    size = 5 << 20
    http_server.files["/a"] = bytes(size)
    http_server.faults["/a"] = [http_server.Fault(cut_at=(5 << 18))] * 3
    fetched, _ = get(attempts=2)
    assert fetched.resumed == 3 * (5 << 18)
    assert waits == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_is_final(get, http_server, status):
    http_server.faults["/a"] = [http_server.Fault(status=status)]
    with pytest.raises(DownloadError, match=f"the server answered {status}") as caught:
        get()
    assert caught.value.next_step == "What to do."
    assert len(http_server.requests) == 1


def test_a_dropped_connection_is_tried_again(get, http_server):
    http_server.faults["/a"] = [http_server.Fault(drop=True)]
    assert get()[1] == DATA


def test_a_silent_server_is_left_and_asked_again(get, http_server, heard):
    http_server.faults["/a"] = [http_server.Fault(stall_at=CHUNK_BYTES + 1000)]
    fetched, data = get(read_timeout=0.2)
    assert (fetched.resumed, data) == (CHUNK_BYTES + 1000, DATA)
    assert "timed out" in heard.said[0]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_server_that_drips_is_left_and_asked_again(get, http_server, heard, chunked):
    http_server.faults["/a"] = [http_server.Fault(drip_at=HALF, chunked=chunked)]
    fetched, data = get(read_timeout=0.3, slowest=10**7)
    assert data == DATA
    # Without a length nothing says that what is left belongs to the same file.
    assert fetched.resumed == 0 if chunked else HALF <= fetched.resumed < len(DATA)
    assert re.search(r"a: the server sent \d+ bytes in \d s; trying again", heard.said[0])


def test_a_server_that_is_slow_is_waited_for(get, http_server, heard):
    http_server.faults["/a"] = [http_server.Fault(drip_at=len(DATA) - 20)]
    fetched, data = get(read_timeout=0.1, slowest=1)
    assert (fetched.resumed, data, heard.said) == (0, DATA, [])


@pytest.mark.parametrize(
    "when",
    ["Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359", "1e400", "-5", "\xb2"],
)
def test_retry_after_that_is_no_time(get, http_server, waits, when):
    http_server.faults["/a"] = [http_server.Fault(status=503, headers={"Retry-After": when})]
    try:
        assert get()[1] == DATA
    except DownloadError as error:
        assert "asks to wait" in error.message
    assert waits in ([1.0], [])


@pytest.mark.parametrize(
    "target",
    ["http://", "https:///a", "http://[::1", "http://127.0.0.1:99999/a", "http://a b/", ""],
)
def test_a_redirect_to_an_address_that_cannot_be(get, http_server, waits, target):
    fault = http_server.Fault(status=302, headers={"Location": target})
    http_server.faults["/b"] = [fault] * 20
    with pytest.raises(DownloadError, match=r"redirect|leads to, what is no address"):
        get(http_server.url("/b"))
    assert waits == []


def test_from_https_to_http_only_on_this_machine(tmp_path, heard):
    transfer = fetching._Transfer(
        "https://example.com/a", tmp_path / "a", "a", None, heard, RetryPolicy()
    )
    for target in ("https://other.example/a", "http://127.0.0.1/a", "http://localhost:80/a"):
        assert transfer._redirected("https://example.com/a", target) == target
    for target in ("http://example.com/a", "http://127.0.0.1.example.com/a", "//x/a?http:"):
        if target.startswith("http:"):
            with pytest.raises(DownloadError, match="not followed: not https"):
                transfer._redirected("https://example.com/a", target)
        else:
            assert transfer._redirected("https://example.com/a", target).startswith("https:")


def test_a_piece_that_nobody_asked_for(get, http_server):
    piece = {"Content-Range": f"bytes 0-9/{len(DATA)}"}
    http_server.faults["/a"] = [http_server.Fault(status=206, body=DATA[:10], headers=piece)]
    with pytest.raises(DownloadError, match="the server answered 206"):
        get()


def test_an_unreachable_server_is_said_at_once(get, waits):
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9/a: cannot be reached: .*refused"):
        get("http://127.0.0.1:9/a")
    assert waits == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_path_is_followed(get, http_server, status):
    http_server.faults["/b"] = [http_server.Fault(status=status, headers={"Location": "/a"})]
    assert get(http_server.url("/b"))[1] == DATA


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.com/a", "data:,x"])
def test_a_redirect_to_elsewhere_is_not(get, http_server, target):
    http_server.faults["/b"] = [http_server.Fault(status=302, headers={"Location": target})]
    with pytest.raises(DownloadError, match="which is not followed: not https") as caught:
        get(http_server.url("/b"))
    assert target[:8] in caught.value.message


def test_a_redirect_to_nonsense(get, http_server):
    fault = http_server.Fault(status=302, headers={"Location": "http://[nonsense"})
    http_server.faults["/b"] = [fault]
    with pytest.raises(DownloadError, match="leads to, what is no address"):
        get(http_server.url("/b"))


def test_a_file_without_end_is_refused(get, http_server, monkeypatch, tmp_path):
    monkeypatch.setattr("checkpoints.fetch.LARGEST_FILE", HALF)
    with pytest.raises(DownloadError, match="the most that is fetched"):
        get()
    assert (tmp_path / "a.partial").stat().st_size == 0


def test_a_redirect_in_circles_ends(get, http_server):
    http_server.faults["/b"] = [http_server.Fault(status=302, headers={"Location": "/b"})] * 20
    with pytest.raises(DownloadError, match="more than 10 redirects"):
        get(http_server.url("/b"))
    assert len(http_server.requests) == 10


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "/tmp/a.tar.gz", "ftp://a/b", "http://", "a"]
)
def test_only_http_addresses(get, url):
    with pytest.raises(DownloadError, match="no address that can be downloaded from") as caught:
        get(url)
    assert caught.value.received == url


def test_passwords_in_addresses_are_not_shown(get, http_server, tmp_path):
    url = http_server.url("/nothing").replace("://", "://user:secret@")
    with pytest.raises(DownloadError, match="404") as caught:
        get(url)
    assert "secret" not in str(caught.value)
    url = url.replace("/nothing", "/a")
    get(url)
    note = json.loads((tmp_path / "a.partial.json").read_text())
    assert note["url"] == http_server.url("/a")


def test_a_damaged_note_only_costs_the_resuming(get, tmp_path):
    (tmp_path / "a.partial").write_bytes(b"old")
    (tmp_path / "a.partial.json").write_text("{")
    fetched, data = get()
    assert (fetched.resumed, data) == (0, DATA)


def test_bytes_called_encoded_are_kept_as_they_lie(get, http_server):
    http_server.faults["/a"] = [
        http_server.Fault(status=200, body=DATA, headers={"Content-Encoding": "gzip"})
    ]
    assert get()[1] == DATA
