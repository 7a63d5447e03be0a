"""The project around the runtime: the user's class, and the server's settings."""

import pytest

from my_env_runtime import project
from my_env_runtime.errors import GateError, SettingError

BROKEN = {
    "": "mine_{n}.py has no class MyEnv: write the class there, or import it there",
    "class MyEnv:\n    def guess(self word)": "mine_{n}.py, line 2: SyntaxError",
    "import nowhere": (
        "ModuleNotFoundError in mine_{n}.py, line 1: No module named 'nowhere'. Not "
        "installed: nowhere. Add the packages that have it: `uv add --directory "
    ),
    "MyEnv = 1 / 0": "ZeroDivisionError in mine_{n}.py, line 1: division by zero",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_class_that_cannot_be_imported(tmp_path, monkeypatch, source):
    number = list(BROKEN).index(source)  # a module is imported once
    (tmp_path / f"mine_{number}.py").write_text(source)
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(project, "MODULE", f"mine_{number}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GateError) as error:
        project.load_class()
    assert str(error.value).startswith(BROKEN[source].format(n=number))


def test_a_module_that_an_installed_package_hides(monkeypatch):
    monkeypatch.setattr(project, "MODULE", "requests")
    with pytest.raises(GateError, match="the package requests in .* hides your module"):
        project.load_class()


@pytest.mark.parametrize(
    ("variables", "port"),
    [
        ({}, 11000),
        ({"SPACE_ID": "me/space"}, 7860),
        ({"SPACE_ID": "me/space", "PORT": "81"}, 81),
    ],
)
def test_ports(serve, monkeypatch, variables, port):
    for name in ("SPACE_ID", "PORT"):
        monkeypatch.setenv(name, variables.get(name, ""))
    assert serve().config.port == port


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_is_a_number(serve, monkeypatch, port):
    monkeypatch.setenv("PORT", port)
    message = f"PORT must be a number from 0 to 65535, got '{port}'"
    with pytest.raises(SettingError, match=message):
        serve()
