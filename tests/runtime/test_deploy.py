"""Tests of deploying to a Hugging Face Space: its files, and the files left out."""

import inspect
import os
import re
import shutil
import subprocess

import pytest
from detect_secrets.core import scan
from env_runtime import deploy, shipped
from env_runtime.errors import DeployError
from env_runtime.project import here
from huggingface_hub import HfApi

from projects import WHEEL

from .support import refusal


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True)


@pytest.fixture(autouse=True)
def scanner(monkeypatch):
    """detect-secrets takes seconds for a project: it scans the test's own file only."""
    real = scan.scan_file
    monkeypatch.setattr(
        scan, "scan_file", lambda path: real(path) if path.endswith("notes.py") else []
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of what this project deploys, with a lock file of its own."""
    root = tmp_path / "project"
    for path in [*shipped.collect(here()), "nemo_gym/Dockerfile", ".gitignore"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here().root / path, root / path)
    monkeypatch.setitem(vars(here()), "root", root)
    write(root / "nemo_gym" / "uv.lock", "version = 1\n")
    return root


@pytest.fixture(params=["no git", "git"])
def project(request, folder):
    """The same copy, in a git work tree or not."""
    if request.param == "git":
        git(folder, "init", "-q")
    return folder


@pytest.fixture
def dry_run(folder, tmp_path):
    """Runs deploy.py. Returns the folder that it wrote, and the files in it."""
    folder = tmp_path / "space"

    def run(*named):
        shutil.rmtree(folder, ignore_errors=True)
        options = [text for name in named for text in ("--add", name)]
        deploy.main(["--dry-run", str(folder), *options])
        files = (path for path in folder.rglob("*") if path.is_file())
        return folder, {path.relative_to(folder).as_posix() for path in files}

    return run


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_space_has_what_the_image_is_built_from(project, dry_run):
    _, files = dry_run()
    top, gym = ("Dockerfile", "README.md", ".dockerignore", "my_env.py"), "nemo_gym"
    below = ("pyproject.toml", "uv.lock", "README.md", "server.py")
    wheel = f"vendor/{WHEEL}"
    assert {*top, *(f"{gym}/{name}" for name in (*below, wheel))} <= files
    assert not files & {"nemo_gym/Dockerfile", "nemo_gym/make_rows.py"}


def port_in(text, pattern):
    [port] = re.findall(pattern, text, re.MULTILINE)
    return int(port)


def test_front_matter_image_and_server_agree_on_the_port(dry_run, serve, monkeypatch):
    folder, _ = dry_run()
    matter = (folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    assert "\nsdk: docker\n" in matter
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8")
    port = port_in(matter, r"^app_port: (\d+)$")
    assert port_in(dockerfile, "^EXPOSE (.*)$") == port
    monkeypatch.setenv("SPACE_ID", "ada/game")
    monkeypatch.delenv("PORT", raising=False)
    assert serve().config.port == port
    monkeypatch.delenv("SPACE_ID")
    monkeypatch.setenv("PORT", str(port_in(dockerfile, r"^ENV PORT=(\d+)$")))
    assert serve().config.port == port
    monkeypatch.delenv("PORT")
    elsewhere = (here().gym / "Dockerfile").read_text(encoding="utf-8")
    assert port_in(elsewhere, "^EXPOSE (.*)$") == serve().config.port


PRIVATE = """
.env .env.local .gitignore .copier-answers.yml .github/workflows/ci.yml
library/.git/config certificates/server.pem nemo_gym/.env nemo_gym/env.yaml
nemo_gym/.venv/pyvenv.cfg nemo_gym/.venvs/resources_servers/game/.venv/pyvenv.cfg
nemo_gym/__pycache__/server.cpython-313.pyc nemo_gym/.pytest_cache/README.md
nemo_gym/data/example.jsonl nemo_gym/resources_servers/game/verifier_cases.jsonl
nemo_gym/results/r.jsonl nemo_gym/results/gym.log
nemo_gym/prepared/train_metrics.json nemo_gym/tests/test_mine.py
"""
# Nobody can list all the names and formats of keys and rows.
NOT_NEEDED = """
prod.env .docker/config.json .kube/config kaggle.json key.der notes.py rows.pkl
nemo_gym/rows.jsonl.xz nemo_gym/notes.yaml nemo_gym/all.tar.gz
other_package/rows.py my_env_rows.py
"""
# They may hold keys or rows, and the server does not read them.
CONFIGURATIONS = """
nemo_gym/configs/mine.yaml nemo_gym/configs/mine.toml
nemo_gym/environments/other/rows.yaml nemo_gym/environments/my_env/rows.yaml
nemo_gym/resources_servers/other/server.py
"""


def test_private_files_stay(project, dry_run):
    for path in PRIVATE.split():
        write(project / path, "private")
    _, files = dry_run("**")
    assert not files & {*PRIVATE.split()}


def test_what_the_server_does_not_need_stays(project, dry_run, capsys):
    others = [*NOT_NEEDED.split(), *CONFIGURATIONS.split()]
    for path in others:
        write(project / path, '"ground_truth": 1\n')
    _, files = dry_run()
    assert not files & {*others}
    printed = capsys.readouterr().err
    assert [path for path in CONFIGURATIONS.split() if path not in printed] == []


def test_a_file_that_is_named_goes(project, dry_run, capsys):
    write(project / "words.txt", "crane\n")
    write(project / "my_words/all.txt", "crane\n")
    _, files = dry_run()
    assert not files & {"words.txt", "my_words/all.txt"}
    printed = capsys.readouterr().err
    assert "not pushed: " in printed
    assert "words.txt" in printed
    _, files = dry_run("words.txt", "my_words/**")
    assert {"words.txt", "my_words/all.txt"} <= files


def test_a_file_can_be_named_in_pyproject(project, dry_run):
    settings = project / "nemo_gym/pyproject.toml"
    line = '[tool.environment]\nspace_files = ["words.txt"]'
    write(settings, settings.read_text().replace("[tool.environment]", line))
    write(project / "words.txt", "crane\n")
    _, files = dry_run()
    assert "words.txt" in files


@pytest.mark.parametrize("order", [1, -1])
def test_the_repositorys_own_code_goes(project, dry_run, order):
    """The Space gets modules that the class imports, and the package to build."""
    module = project / "my_env.py"
    write(module, f"import my_words\n{module.read_text()}")
    write(project / "my_words.py", "import mazes.walls\n")
    write(project / "other.py", "")
    write(project / "src/mazes/walls.py", "")
    about = 'name = "mazes"\nreadme = "README.rst"\nlicense = {file = "COPYING"}\n'
    tables = [f"[project]\n{about}", '[build-system]\nrequires = ["x"]\n']
    write(project / "pyproject.toml", "\n".join(tables[::order]))
    write(project / "README.rst", "")
    write(project / "COPYING", "")
    _, files = dry_run()
    assert {"my_words.py", "pyproject.toml", "src/mazes/walls.py"} <= files
    assert {"README.rst", "COPYING"} <= files
    assert "other.py" not in files


def test_only_regular_files_go(project, dry_run, tmp_path):
    write(tmp_path / "elsewhere", "private")
    (project / "link.txt").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(project / "pipe")  # reading it would take forever
    _, files = dry_run("**")
    assert not files & {"link.txt", "pipe"}


def test_in_a_git_work_tree_git_ignores_files_too(folder, dry_run):
    git(folder, "init", "-q")
    write(folder / ".gitignore", "*.tmp\nkept.log\n")
    for name in ("a.tmp", "kept.log", "untracked.txt", "gone.txt", "\u00e4 \n.txt"):
        write(folder / name, "text")
    git(folder, "add", "-f", "kept.log", "gone.txt")
    (folder / "gone.txt").unlink()
    _, files = dry_run("**")
    assert {"kept.log", "untracked.txt", "\u00e4 \n.txt"} <= files
    assert not files & {"a.tmp", "gone.txt"}


def test_a_project_inside_a_repository(folder, dry_run, tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    write(tmp_path / "outside.txt", "text")
    write(tmp_path / ".gitignore", "*.tmp\n")
    write(folder / "a.tmp", "text")
    # These are set in a hook of another repository.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    _, files = dry_run("**")
    assert "nemo_gym/server.py" in files
    assert not {path for path in files if path.endswith(("outside.txt", ".tmp"))}


def test_a_project_that_git_ignores_as_a_whole(folder, dry_run, tmp_path):
    git(tmp_path, "init", "-q")
    write(tmp_path / ".gitignore", "project\n")
    _, files = dry_run()
    assert "nemo_gym/server.py" in files


def test_git_that_fails(folder, dry_run):
    write(folder / ".git", "not git's")
    with pytest.raises(DeployError, match="git must list the files of "):
        dry_run()


@pytest.mark.parametrize("ignored", [True, False])
def test_a_project_without_a_lock_file_that_goes(folder, dry_run, ignored):
    if ignored:
        git(folder, "init", "-q")
        write(folder / ".gitignore", "uv.lock\n")
    else:
        (folder / "nemo_gym/uv.lock").unlink()
    with pytest.raises(DeployError, match="run `uv lock`"):
        dry_run()


def test_secrets_stay_whatever_the_dockerignore_says(project, dry_run):
    write(project / ".dockerignore", "!**\n")
    write(project / ".env", "private")
    write(project / "nemo_gym" / "env.yaml", "private")
    _, files = dry_run("**")
    assert not files & {".env", "nemo_gym/env.yaml"}


# Names that hold keys, and names that only look like it
KEYS = [".env", ".env.production", "production.env", "env.yaml", ".aws/credentials"]
KEYS += [".ssh/config", "id_rsa", "id_ed25519.pub", "key.p12", ".pypirc", "_netrc"]
KEYS += [".git-credentials", ".gnupg/secring.gpg", ".config/gcloud/credentials.db"]
KEYS += ["client_secret_7.apps.json", ".cargo/credentials.toml", "a.keystore"]
HONEST = [
    "secrets_game.py",
    "key.md",
    "keys/a.txt",
    "aws/credentials",
    "environment.py",
]
HONEST += [".config/game.toml", "credentials.json", "id.txt", "token", "ssh/config"]


@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("folder_of_keys", ["", "sub/", "sub/deep/", "nemo_gym/data/"])
def test_keys_stay_and_honest_files_go(project, dry_run, folder_of_keys, ignored):
    """Because of the generated .dockerignore, and without its lines."""
    if not ignored:
        write(project / ".dockerignore", "!**\n")
    for name in (*KEYS, *HONEST):
        (project / folder_of_keys / name).parent.mkdir(parents=True, exist_ok=True)
        write(project / folder_of_keys / name, "nothing")
    lines = (project / ".dockerignore").read_text().splitlines()
    left_out = shipped.matcher(lines).match_file
    paths = [f"{folder_of_keys}{name}" for name in (*KEYS, *HONEST)]
    if ignored:
        assert [path for path in paths if left_out(path)] == paths[: len(KEYS)]
    _, files = dry_run("**")
    assert [path for path in paths if path in files] == paths[len(KEYS) :]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_key_in_a_file_is_refused(project, dry_run, encoding):
    text = "import os\nTOKEN = 'hf_" + 34 * "x" + "'\n"
    (project / "notes.py").write_bytes(text.encode(encoding))
    with pytest.raises(DeployError, match=r"notes\.py, line 2, .* \(hf_xxxxx\."):
        dry_run("notes.py")


@pytest.mark.parametrize(
    "line",
    [
        "AWS = 'AKIA" + 4 * "QZ7M" + "'",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "TOKEN = 'ghp_" + 36 * "x" + "'",
        "TOKEN = 'glpat-" + 20 * "x" + "'",
        "TOKEN = 'AIza" + 35 * "x" + "'",
        "TOKEN = 'gsk_" + 52 * "x" + "'",
        "TOKEN = 'dtn_" + 64 * "x" + "'",
    ],
)
def test_keys_of_other_services_are_refused(folder, dry_run, line):
    write(folder / "notes.py", f"import os\n{line}\n")
    with pytest.raises(DeployError, match=r"notes\.py, line 2, looks like"):
        dry_run("notes.py")


CONFIG = "nemo_gym/configs/my_env.yaml"
KEYS_BY_NAME = {
    CONFIG: [
        "policy_api_key: 7f3kq29",
        "JUDGE_API_KEY: x9",
        "x: {db_password: hunter2}",
        "AZURE_OPENAI_KEY: 7f3kq29",
        "- {signing-key: 7f3kq29}",
        "openai_api_key_2: 7f3kq29",
        "# password: hunter2",
    ],
    "nemo_gym/configs/my_env_eval.toml": ["openai_api_key = '7f3kq29'"],
    "nemo_gym/environments/my_env/config.yaml": ["hub_token: 7f3kq29"],
    "nemo_gym/pyproject.toml": ['password = "7"'],
    "nemo_gym/Dockerfile": [
        "ENV JUDGE_API_KEY=7f3kq29",
        "ENV A=1 JUDGE_API_KEY=7f3kq29",
    ],
    "my_env.py": [
        "API_KEY = '0f1e2d3c4b5a69788796a5b4'",
        'os.environ["JUDGE_API_KEY"] = "0f1e2d3c4b5a69788796a5b4"',
    ],
}
NO_KEYS = """\
policy_api_key: ${policy_api_key}
judge_api_key: "${oc.env:JUDGE_API_KEY,none}"
api_key_var: OPENAI_API_KEY
api_key: OPENAI_API_KEY
api_key: OPENAI_API_KEY  # the variable that holds the key
password: ""
# token: <your token>
# the token: see the docs
policy_api_key: ???
policy_api_key: EMPTY
api_key: ~
description: Guess the secret: one word
note: Bearer authentication
max_tokens: 100
return_token_id_information: true
"""


def append(path, text):
    path.write_text(f"{path.read_text()}\n{text}\n")


@pytest.mark.parametrize("path", KEYS_BY_NAME)
def test_a_key_by_its_name_is_refused(folder, dry_run, path):
    before = (folder / path).read_text()
    for line in KEYS_BY_NAME[path]:
        append(folder / path, line)
        with pytest.raises(DeployError, match=rf"{path}, line \d+, looks like"):
            dry_run()
        (folder / path).write_text(before)


def test_a_name_without_a_key_goes(folder, dry_run):
    append(folder / CONFIG, NO_KEYS)
    _, files = dry_run()
    assert CONFIG in files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nemo_gym/data/more.csv", "word\n"),
        ("tasks.txt", '{"ground_truth": [{"word": "crane"}]}\n'),
        ("nemo_gym/rows.jsonl.gz", "packed"),
    ],
)
def test_files_that_look_like_rows_are_not_pushed_without_consent(
    project, monkeypatch, name, text
):
    def push(*given):
        raise AssertionError("nothing may be pushed")

    write(project / name, text)
    monkeypatch.setattr(deploy, "push", push)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(DeployError, match=f"{name} may hold .* --with-data"):
        deploy.main(["--space", "ada/game", "--add", name])
    monkeypatch.setattr(deploy, "push", lambda *given: None)
    deploy.main(["--space", "ada/game", "--add", name, "--with-data"])


def test_tasks_that_go_are_named(project, dry_run, capsys):
    """Their rows may have a word that looks like a key."""
    row = '{"ground_truth": [{"secret": 42, "password": "swordfish"}]}'
    write(project / ".dockerignore", "")
    write(project / "nemo_gym/data/example.jsonl", row)
    _, files = dry_run("nemo_gym/data/*")
    assert "nemo_gym/data/example.jsonl" in files
    printed = capsys.readouterr()
    assert "nemo_gym/data/example.jsonl" in printed.out
    assert "nemo_gym/data/example.jsonl may hold tasks" in printed.err


def test_a_dry_run_inside_the_project_is_not_deployed(project, dry_run):
    deploy.main(["--dry-run", str(project / "space")])
    assert (project / "space" / "nemo_gym" / "server.py").is_file()
    assert not (project / "space" / "space").exists()
    _, files = dry_run()
    assert not [path for path in files if path.startswith("space/")]


def test_a_dry_run_needs_a_new_folder(project):
    with pytest.raises(DeployError, match="already exists"):
        deploy.main(["--dry-run", str(project)])


def test_a_package_that_no_image_gets_is_named(project, dry_run, capsys):
    path = project / "nemo_gym" / "pyproject.toml"
    sources = '[tool.uv.sources]\ndigging = { path = "../../digging" }\n'
    path.write_text(path.read_text().replace("[tool.uv.sources]\n", sources))
    dry_run()
    warning = "warning: digging is installed from ../../digging, which an image does"
    assert warning in capsys.readouterr().err


class Hub:
    """A stand-in for huggingface_hub.HfApi that records the calls."""

    def __init__(self, calls, error=None):
        self.calls = calls
        self.error = error

    def __getattr__(self, method):
        def call(**arguments):
            # Fails if the real method has no such parameter.
            inspect.signature(getattr(HfApi, method)).bind(self, **arguments)
            if "folder_path" in arguments:
                names = {path.name for path in arguments["folder_path"].iterdir()}
                assert {"Dockerfile", "README.md", "nemo_gym"} <= names
            self.calls.append((method, arguments["repo_id"]))
            if self.error:
                raise self.error

        return call


@pytest.fixture
def hub(monkeypatch):
    """The calls of the hub's API; `error` is what they raise."""
    hub = Hub([])
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "token")
    monkeypatch.setattr("huggingface_hub.HfApi", lambda token: hub)
    return hub


@pytest.mark.parametrize("private", [False, True])
def test_push(project, hub, private, capsys):
    deploy.main(["--space", "ada/my_game", *(["--private"] if private else [])])
    hide = ["update_repo_settings"] if private else []
    methods = ["create_repo", *hide, "upload_folder"]
    assert hub.calls == [(method, "ada/my_game") for method in methods]
    assert "gates.py --url https://ada-my-game.hf.space" in capsys.readouterr().out


def test_a_push_that_fails(project, hub, monkeypatch):
    hub.error = OSError("403\n\nForbidden")
    failed = refusal(DeployError, deploy.main, ["--space", "ada/game"])
    assert "'ada/game'" in failed and "(403 Forbidden)" in failed
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "set HF_TOKEN" in refusal(DeployError, deploy.main, ["--space", "ada/game"])
    unnamed = refusal(DeployError, deploy.main, ["--space", "no space"])
    assert "owner/name, got 'no space'" in unnamed


# Lines of a .dockerignore: paths that they match, and paths that they do not
PATTERNS = {
    "**/.git*": (".gitignore a/b/.git/config", "a/x.git"),
    "nemo_gym/cache": ("nemo_gym/cache/a/b", "nemo_gym/cache2 a/nemo_gym/cache"),
    "/*.md": ("README.md", ""),
    "*.md": ("", "nemo_gym/README.md"),
    "a/**": ("a/b/c", ""),
    "a/**/*.b": ("a/x.b a/c/d/x.b", ""),
    "a?c.[pt]y": ("abc.ty", ""),
    "a.c": ("", "abc"),
    "a": ("a/b", ""),
    "**/*.pem": ("a.pem", ""),
    "nemo_gym/**/*.jsonl": ("nemo_gym/data/x.jsonl nemo_gym/a.jsonl", "a.jsonl"),
    "nemo_gym/tests": ("nemo_gym/tests/a/b.py", ""),
    "*.txt\n!a.txt": ("b.txt", "a.txt"),
    "*.txt\n!a.txt\na*": ("a.txt", ""),
    "data\n!data/a.txt": ("data/b.txt", "data/a.txt"),
    "data/**\n!data/kept": ("", "data/kept/a.txt"),
    "**\n!nemo_gym": ("README.md", "nemo_gym/a/b.py"),
    "  a.txt  \n# b.txt\n": ("a.txt", "b.txt"),
    "./a/../b.txt/": ("b.txt", ""),
    "a.txt\n! a.txt": ("", "a.txt"),
}


@pytest.mark.parametrize("patterns", PATTERNS)
def test_patterns_have_the_meaning_that_docker_gives_them(patterns):
    matches = shipped.matcher(patterns.split("\n")).match_file
    matched, others = (paths.split() for paths in PATTERNS[patterns])
    assert [path for path in (*matched, *others) if matches(path)] == matched
