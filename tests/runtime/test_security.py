"""A server on a public address: API token, signed cookies, secret answers."""

import json

import pytest
import uvicorn
from env_runtime.episode.samples import sample_arguments
from env_runtime.project import here

from .support import Plain, Player, app_of, refusal


@pytest.fixture
def client_with(serve):
    """Makes a client with these headers, of a server that is built now."""
    return lambda **headers: Player(app_of(serve()), headers=headers)


@pytest.fixture
def guarded(monkeypatch, client_with):
    monkeypatch.setenv("API_TOKEN", "s3cret")
    return client_with()


@pytest.mark.parametrize("header", [None, "Bearer wrong", "s3cret", "Bearer s3cret "])
def test_without_the_token_every_route_but_health_is_closed(guarded, tools, header):
    headers = {"Authorization": header} if header else {}
    assert guarded.get("/health", headers=headers).status_code == 200
    for path in ("/openapi.json", "/docs", "/no_such_page"):
        assert guarded.get(path, headers=headers).status_code == 401
    for path in ("/seed_session", "/close_session", "/verify", f"/{tools[0]['name']}"):
        assert guarded.post(path, json={}, headers=headers).status_code == 401


def test_with_the_token_everything_works(guarded, rows):
    guarded.headers["Authorization"] = "Bearer s3cret"
    assert guarded.get("/openapi.json").status_code == 200
    guarded.seed(rows[0])


# Names that lead to this machine, and names that a web page's owner may choose
OWN_HOSTS = ["127.0.0.1:11000", "localhost", "LOCALHOST:80", "[::1]:7860", "127.1.2.3"]
OTHERS = ["evil.example", "evil.example:11000", "127.0.0.1.evil.example", "10.0.0.7"]
OTHERS += ["localhost.evil.example", "evil.example:127.0.0.1", "[evil.example]", ""]


@pytest.mark.parametrize("host", [*OWN_HOSTS, *OTHERS])
def test_without_a_token_the_host_must_be_this_machine(client_with, tools, host):
    """A page at a name that its owner points to 127.0.0.1 may post to any route."""
    client = client_with(Host=host)
    answers = [client.get(path) for path in ("/health", "/tools", "/docs")]
    tool, arguments = f"/{tools[0]['name']}", sample_arguments(tools[0])
    answers.append(client.post(tool, json=arguments))
    expected = 200 if host in OWN_HOSTS else 403
    assert [answer.status_code for answer in answers] == [expected] * 4
    assert "evil" not in answers[-1].text


@pytest.mark.parametrize(
    "variables",
    [
        {"API_TOKEN": "s3cret"},
        {"ALLOW_ANYBODY": "1"},
        {"ALLOW_ANYBODY": "container"},
        {"SPACE_ID": "ada/game"},
        {"HOST": "evil.example"},
    ],
)
def test_a_server_for_others_has_any_host(client_with, monkeypatch, variables):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    client = client_with(Host="evil.example", Authorization="Bearer s3cret")
    assert client.get("/tools").status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:11000", 200),
        ("https://127.0.0.1:11000", 200),  # a proxy may have ended TLS
        ("http://127.0.0.1:3000", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("anybody", ["", "1"])
def test_pages_of_other_sites_get_no_answer(
    client_with, tools, monkeypatch, origin, status, anybody
):
    monkeypatch.setenv("ALLOW_ANYBODY", anybody)
    client = client_with(Host="127.0.0.1:11000", Origin=origin)
    tool, text = f"/{tools[0]['name']}", json.dumps(sample_arguments(tools[0]))
    assert client.post(tool, json=sample_arguments(tools[0])).status_code == status
    # A form posts text without asking the server first.
    headers = {"content-type": "text/plain"}
    assert client.post(tool, content=text, headers=headers).status_code >= 400


@pytest.mark.parametrize("cookies", ["a;" * 2049, "a=" + "x" * 4096])
def test_cookies_have_a_limit(client_with, cookies):
    """FastAPI splits all of them for each request."""
    client = client_with()
    for path in ("/health", "/tools"):
        assert client.get(path, headers={"Cookie": "a=" * 2048}).status_code == 200
        assert client.get(path, headers={"Cookie": cookies}).status_code == 431
        twice = [("Cookie", cookies[:3000]), ("Cookie", cookies[:3000])]
        assert client.get(path, headers=twice).status_code == 431


def test_no_path_is_redirected(client, tools):
    """A redirect would repeat the Host header of the request."""
    for path in ("verify/", "seed_session/", f"{tools[0]['name']}/", "/verify"):
        url = f"{client.base_url}/{path}"
        answer = client.post(url, json={}, follow_redirects=False)
        assert answer.status_code == 404, path


@pytest.mark.parametrize("secret", ["one", "two", ""])
def test_cookies_are_good_while_the_secret_is_the_same(
    monkeypatch, run, serve, limited, rows, call, secret
):
    """Without SESSION_SECRET each server has a random one."""
    monkeypatch.setenv("SESSION_SECRET", "one" if secret else "")
    first = limited().seed(rows[0])
    monkeypatch.setenv("SESSION_SECRET", secret)
    second = serve()
    connect = run(second)
    client, seeds = connect(), connect()
    for each in (client, seeds):
        each.cookies.update(first.cookies)
    # A cookie that this server did not sign may be one of another start of it.
    assert "this episode was lost" in call(client)
    assert not second.sessions
    seeds.seed(rows[0], 409 if secret == "one" else 200)


def test_a_forged_cookie_opens_nobody_elses_session(server, connect, rows, call):
    ada, eve = connect(), connect()
    ada.seed(rows[0])
    [name] = ada.cookies
    value = ada.cookies[name]
    eve.cookies.set(name, value[:-4] + ("AAAA" if value[-4:] != "AAAA" else "BBBB"))
    assert "this episode was lost" in call(eve)
    [adas] = server.sessions.values()
    assert adas.calls == []


@pytest.mark.parametrize("metrics", ["", "1"])
def test_no_answer_loses_the_cookie(run, serve, rows, tools, monkeypatch, metrics):
    """NeMo Gym's simple_agent keeps only the cookies of the last answer. Without the
    session's cookie a policy could seed an episode itself."""
    monkeypatch.setenv("METRICS", metrics)
    monkeypatch.setenv("API_TOKEN", "secret")
    client = run(serve(max_body_bytes=10_000))()
    client.headers["Authorization"] = "Bearer secret"
    client.seed(rows[0])
    [cookie] = client.cookies.values()
    tool = tools[0]["name"]
    answers = [
        client.post(f"/{tool}", json={"x": "x" * 10_000}),
        client.get("/metrics"),
    ]
    paths = f"{tool}/ health metrics tools docs no_such_tool verify aggregate_metrics"
    for path in ("", *paths.split(), "seed_session", "close_session"):
        answers.append(client.post(f"/{path}", json={}, follow_redirects=False))
    for answer in answers:
        assert f"={cookie};" in answer.headers["set-cookie"], answer.url


def texts(value):
    """Every text inside a JSON value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [text for part in inner for text in texts(part)]
    return [value] if isinstance(value, str) else []


def test_no_answer_leaks_before_verify(client, rows, tools, caplog, capfd):
    """The logs do not have it, and no route that is not a tool reveals it."""
    caplog.set_level("DEBUG")
    pages = ("/openapi.json", "/tools", "/health")
    # Words that are public anyway: `allow` is in the OpenAPI document.
    public = "".join(client.get(path).text for path in pages)
    for row in rows[:3]:
        public += json.dumps(row["responses_create_params"], ensure_ascii=False)
        answers = [text for text in texts(row["ground_truth"]) if text not in public]
        client.cookies.clear()
        seeded = client.post("/seed_session", json=row)
        assert seeded.status_code == 200
        shown = seeded.text
        for tool in tools:
            client.post(f"/{tool['name']}", json=sample_arguments(tool))
        shown += "".join(client.get(path).text for path in pages)
        shown += client.post("/close_session", json={}).text
        shown += "".join(client.get(path).text for path in pages)
        shown += caplog.text + "".join(capfd.readouterr())
        for answer in answers:
            assert answer not in shown
            assert json.dumps(answer)[1:-1] not in shown


def test_metrics_are_not_for_policies(client, rows):
    client.seed(rows[0])
    answer = client.post("/aggregate_metrics", json={"verify_responses": []})
    assert answer.status_code == 403


CONTAINER = {"HOST": "0.0.0.0", "ALLOW_ANYBODY": "container"}
NO_ISOLATION = "no isolation: install it"


@pytest.mark.parametrize(
    ("problem", "variables", "message"),
    [
        (None, {"HOST": "0.0.0.0"}, "on HOST=0.0.0.0 anybody who reaches this port"),
        (None, {"HOST": "0.0.0.0", "API_TOKEN": "secret"}, None),
        (None, {"HOST": "0.0.0.0", "ALLOW_ANYBODY": "1"}, None),
        (None, CONTAINER, None),
        (None, {**CONTAINER, "SPACE_ID": "ada/game"}, "on HOST=0.0.0.0 anybody"),
        (None, {"HOST": "127.0.0.1"}, None),
        (NO_ISOLATION, {"HOST": "127.0.0.1"}, f"server.py: {NO_ISOLATION}"),
        (NO_ISOLATION, {"HOST": "0.0.0.0", "TRUSTED_POLICY": "1"}, None),
    ],
)
def test_a_server_that_strangers_could_misuse_does_not_start(
    monkeypatch, server_of, own_loggers, problem, variables, message
):
    class Shell(Plain):
        runs_commands = True

        @staticmethod
        def refuse_to_serve():
            return problem

    served = []
    monkeypatch.setattr(uvicorn, "run", lambda *app, **named: served.append(named))
    monkeypatch.setenv("SESSION_LOG", "/no folder/session.log")
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    serve = type(server_of(Shell)).main
    if message:
        assert message in refusal(SystemExit, serve)
    else:
        serve()
    assert bool(served) == (message is None)


@pytest.mark.parametrize("variable", ["PORT", "MAX_SESSIONS", "API_TOKEN"])
def test_a_wrong_setting_ends_the_start_with_a_line(variable, monkeypatch):
    monkeypatch.setenv(variable, "a\nb")
    with pytest.raises(SystemExit, match=f"server.py: {variable} must be "):
        here().load_server().main()
