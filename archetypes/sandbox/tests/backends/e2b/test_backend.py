"""The workspace on E2B, with the stand-in of test_environment.py for E2B's SDK."""

import pytest
from test_environment import FakeSandbox, SandboxException, sandboxes, start

from plumbing.environment import EnvironmentClass

__all__ = ["sandboxes", "start"]


def test_limits(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "1")
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    monkeypatch.setenv("SANDBOX_FILE_MB", "1")
    episode = start()
    assert episode.run_command("echo begun; sleep 60 & sleep 60") == (
        "error: killed after 1 seconds\nbegun"
    )
    episode.run_python("open('big', 'w').write('first' + 'x' * 100_000 + 'last')")
    for text in (episode.run_command("cat big"), episode.read_file("big")):
        assert len(text) < 1200
        assert text.startswith("first")
        assert text.endswith("last")
        assert "[truncated: " in text
    with pytest.raises(ValueError, match="limit"):
        episode.write_file("big", "x" * 2_000_000)
    assert "File too large" in episode.run_python(
        "open('b', 'wb').write(b'x' * 2_000_000)"
    )


def test_a_background_command_does_not_hold_up_its_call(start):
    assert start().run_command("sleep 60 & echo ok") == "ok"


def test_untrusted_policies_are_served():
    assert EnvironmentClass.refuse_to_serve() is None


def test_the_environment_has_no_secrets(start):
    assert "secret" not in start().run_command("env")


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "", ".", "a\0b", "\ud800"]
)
def test_paths_stay_inside(start, path):
    episode = start()
    with pytest.raises(ValueError):
        episode.read_file(path)
    with pytest.raises(ValueError):
        episode.write_file(path, "x")
    assert episode.infrastructure_failure is None


def test_only_regular_files_are_read(start):
    episode = start()
    episode.run_command("mkfifo pipe; mkdir folder; ln -s folder link")
    for path in ("pipe", "folder", "link", "missing"):
        with pytest.raises(ValueError, match=path):
            episode.read_file(path)
    with pytest.raises(ValueError, match="folder"):
        episode.write_file("folder", "x")
    assert episode.infrastructure_failure is None


def test_a_refused_machine_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.setattr(FakeSandbox, "refuse", SandboxException("out of quota"))
    episode = start()
    with pytest.raises(RuntimeError, match="out of quota"):
        episode.run_command("ls")
    assert "out of quota" in episode.infrastructure_failure


def test_ending_the_shell_is_the_policys_own_doing(start):
    episode = start()
    assert episode.run_command(
        "kill -9 $(ps -o ppid= $$ | xargs ps -o ppid=)"
    ).startswith("error: the command ended the shell")
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize(
    "mess", ["mkdir out", "mkfifo out", "ln -s /dev/zero out", "rm -rf ~+"]
)
def test_a_mess_in_place_of_a_file_is_not_that_file(start, mess):
    episode = start(expected_output="x", expected_files={"out": "right"})
    episode.run_command(mess)
    episode.submit("x")
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure is None
