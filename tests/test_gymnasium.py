"""The archetype `gymnasium`: the class that is written for an environment."""

import base64
import functools
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypedDict

import runtime.rendered  # noqa: F401  # makes env_runtime importable

# isort: split
import gymnasium
import numpy as np
import pytest
from env_runtime.episode.samples import sample_arguments
from env_runtime.episode.tools import make_tool
from env_runtime.errors import GateError
from env_runtime.gymnasium import facts_of, rules
from env_runtime.gymnasium.__main__ import with_environment
from gymnasium import spaces
from PIL import Image
from pydantic import Field, TypeAdapter

from projects import ROOT, import_path, lint, load_module, run
from rendering import render_project

STYLE = f"--config={ROOT / 'pyproject.toml'}"
MINIGRID = "minigrid:MiniGrid-Empty-5x5-v0"
# Each environment's actions, the range of its returns, and whether it has an oracle.
ENVIRONMENTS: dict[str, tuple[Any, tuple[float, float], bool]] = {
    "FrozenLake-v1": (
        Literal["move_left", "move_down", "move_right", "move_up"],
        (0.0, 1.0),
        True,
    ),
    "Taxi-v4": (
        Literal[
            "move_south",
            "move_north",
            "move_east",
            "move_west",
            "pickup_passenger",
            "drop_off_passenger",
        ],
        (-500.0, 20.0),
        True,
    ),
    "CliffWalking-v1": (
        Literal["move_up", "move_right", "move_down", "move_left"],
        (-5000.0, 0.0),
        True,
    ),
    "Blackjack-v1": (Literal["stick", "hit"], (-1.0, 1.0), False),
    "CartPole-v1": (
        Literal["push_cart_to_the_left", "push_cart_to_the_right"],
        (0.0, 50.0),
        False,
    ),
    "Pendulum-v1": (
        Annotated[
            list[Annotated[float, Field(ge=-2.0, le=2.0)]],
            Field(min_length=1, max_length=1),
        ],
        (-850.0, 0.0),
        False,
    ),
    MINIGRID: (
        Literal["left", "right", "forward", "pickup", "drop", "toggle", "done"],
        (0.0, 1.0),
        False,
    ),
}
each_environment = pytest.mark.parametrize("name", ENVIRONMENTS)

Write = Callable[..., tuple[str, Any]]


@pytest.fixture(scope="module")
def project(render) -> Path:
    return render(archetype="gymnasium")


@pytest.fixture(scope="module")
def frames(render) -> Path:
    return render(archetype="gymnasium", backend="frames")


def class_in(file: Path) -> Any:
    """The class in a file of a project that other tests read: no bytecode beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        return load_module(file, "class_in").MyEnv


def written(source: Path, name: str) -> tuple[str, list[str]]:
    """The class of a project, written for an environment, and what to look at in it."""
    file = source / "my_env.py"
    return with_environment(file.read_text(), class_in(file), name)


@pytest.fixture
def write(project, tmp_path) -> Write:
    """The source of the class for an environment, and its module."""

    def write_class(name: str, source: Path = project) -> tuple[str, Any]:
        text, _ = written(source, name)
        (tmp_path / "my_env.py").write_text(text)
        return text, load_module(tmp_path / "my_env.py", "written_env")

    return write_class


@pytest.fixture
def write_frames(write, frames) -> Write:
    """The same of the class that shows frames."""
    return functools.partial(write, source=frames)


def schema_of(action: Any) -> Any:
    """The type of an action as a policy sees it."""
    return TypeAdapter(action).json_schema()


def action_of(module: Any, *, high: bool = False) -> Any:
    definition = make_tool(module.MyEnv.step).definition()
    return sample_arguments(definition, high=high)["action"]


@pytest.mark.parametrize("backend", ["text", "frames"])
def test_the_class_is_written_for_frozen_lake_already(render, backend):
    source = render(archetype="gymnasium", backend=backend)
    text, _ = written(source, "FrozenLake-v1")
    assert text == (source / "my_env.py").read_text()


@each_environment
def test_the_class_says_what_the_environment_has(write, tmp_path, name):
    action, reward_range, has_oracle = ENVIRONMENTS[name]
    text, module = write(name)
    assert schema_of(facts_of(module.MyEnv).action) == schema_of(action)
    assert "(self, action: Action) -> str:" in text
    assert (module.MyEnv.id, module.MyEnv.reward_range) == (name, reward_range)
    assert hasattr(module.MyEnv, "oracle") == has_oracle
    lint(tmp_path, STYLE)


@each_environment
def test_an_episode_plays(write, name):
    _, module = write(name)
    low, high = module.MyEnv.reward_range
    for top in (False, True):
        episode = module.MyEnv({"seed": 3})
        assert episode.observation() == module.MyEnv({"seed": 3}).observation() != ""
        assert episode.reward() == low
        action = action_of(module, high=top)
        outputs = [episode.step(action)]
        while not outputs[-1].endswith("The episode is over."):
            outputs.append(episode.step(action))
        assert len(outputs) <= module.MyEnv.max_steps
        assert low <= episode.reward() <= high
        with pytest.raises(ValueError, match="the episode is over"):
            episode.step(action)
        episode.close()


@pytest.mark.parametrize("name", ["antigravity:Taxi-v4", "Taxi-v4", 4, None])
def test_a_row_cannot_choose_the_environment(write, write_frames, name):
    """gymnasium.make() imports the module before the colon, whatever it is."""
    for made in (write, write_frames):
        episode = made("FrozenLake-v1")[1].MyEnv
        episode({"id": "FrozenLake-v1"})
        with pytest.raises(ValueError, match=f"id must be FrozenLake-v1, got {name!r}"):
            episode({"id": name})
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "name, task, earned",
    [
        ("FrozenLake-v1", {"seed": 1, "options": {"is_slippery": False}}, 1.0),
        ("FrozenLake-v1", {"seed": 1}, 1.0),
        ("CliffWalking-v1", {}, -13.0),
        ("Taxi-v4", {"seed": 1}, 9.0),
    ],
)
def test_the_oracle_plays_as_well_as_possible(write, name, task, earned):
    environment = write(name)[1].MyEnv
    episode = environment(task)
    for tool, arguments in environment.oracle(task):
        getattr(episode, tool)(**arguments)
    assert episode.reward() == earned


def picture(seen: Any) -> Image.Image:
    kind, _, data = seen.image.partition(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize(
    "name",
    [
        "FrozenLake-v1",
        pytest.param("Taxi-v4", marks=pytest.mark.slow),
        pytest.param(MINIGRID, marks=pytest.mark.slow),
    ],
)
def test_an_episode_as_frames(write_frames, tmp_path, name):
    _, module = write_frames(name)
    environment = module.MyEnv
    assert schema_of(facts_of(environment).action) == schema_of(ENVIRONMENTS[name][0])
    assert hasattr(environment, "oracle") == ENVIRONMENTS[name][2]
    assert (
        environment({"seed": 3}).observation() == environment({"seed": 3}).observation()
    )
    episode = environment({"seed": 3})
    first = episode.observation()
    assert max(picture(first).size) <= module.MyEnv.pixels
    calls = [("step", {"action": action_of(module)})] * module.MyEnv.max_steps
    if hasattr(environment, "oracle"):
        calls = environment.oracle({"seed": 3})
    outputs = []
    while not outputs or "over" not in outputs[-1].output:
        tool, arguments = calls[len(outputs)]
        outputs.append(getattr(episode, tool)(**arguments))
    assert {each.image for each in outputs} != {first.image}
    assert outputs[-1].output.startswith("Reward: ")
    assert outputs[-1].output.endswith(" The episode is over.")
    with pytest.raises(ValueError, match="the episode is over"):
        episode.step(action_of(module))
    lint(tmp_path, STYLE)


def test_a_box_as_frames(write_frames, tmp_path):
    _, module = write_frames("Pendulum-v1")
    lint(tmp_path, STYLE)
    episode = module.MyEnv({"seed": 1})
    first = episode.observation()
    assert [episode.step([2.0]) for _ in range(5)][-1].image != first.image


def test_an_environment_without_frames_is_named(frames, register):
    name = register(spaces.Discrete(2))
    with pytest.raises(GateError, match=f"{name} draws no frame .* modes: none"):
        written(frames, name)


def test_a_project_with_frames_says_that_it_shows_images(frames, project):
    manifest = "nemo_gym/environments/my_env/manifest.yaml"
    assert "\nmodality: text, image\n" in (frames / manifest).read_text()
    assert (
        "[gymnasium-frames,nemo-gym]"
        in (frames / "nemo_gym/pyproject.toml").read_text()
    )
    assert (frames / "nemo_gym/data/example.jsonl").read_text() == ""
    assert "backend: frames\n" in (frames / ".copier-answers.yml").read_text()
    assert "\nmodality: text\n" in (project / manifest).read_text()


def test_colors_of_a_terminal_are_brackets(write):
    board = write("Taxi-v4")[1].MyEnv({"seed": 3}).observation()
    assert "\x1b" not in board
    assert [board.count(mark) for mark in "(<["] == [1, 1, 1], board


class Spaces(gymnasium.Env):
    """An environment that ends at once, with any action space."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Discrete(2)

    def __init__(self, action_space, render_mode=None):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, 0.5, True, False, {}


SPACES: dict[str, tuple[Any, Any, Any]] = {
    "Discrete": (
        spaces.Discrete(3, start=-1),
        Annotated[int, Field(ge=-1, le=1)],
        -1,
    ),
    "MultiDiscrete": (
        spaces.MultiDiscrete([2, 3]),
        Annotated[
            list[Annotated[int, Field(ge=0, le=2)]], Field(min_length=2, max_length=2)
        ],
        [1, 2],
    ),
    "MultiBinary": (
        spaces.MultiBinary(2),
        Annotated[list[bool], Field(min_length=2, max_length=2)],
        [True, False],
    ),
    "Box": (
        spaces.Box(-np.inf, 1.0, (2, 2)),
        Annotated[
            list[Annotated[float, Field(le=1.0)]], Field(min_length=4, max_length=4)
        ],
        [0.0, 0.5, 1.0, -9.5],
    ),
    "Dict": (
        spaces.Dict(
            {
                "go to": spaces.Discrete(3),
                "push": spaces.Box(-1.0, 1.0, (2,)),
                "say": spaces.Text(5),
                "the_levers": spaces.MultiBinary(2),
            }
        ),
        TypedDict(
            "Action",
            {
                "go to": Annotated[int, Field(ge=0, le=2)],
                "push": Annotated[
                    list[Annotated[float, Field(ge=-1.0, le=1.0)]],
                    Field(min_length=2, max_length=2),
                ],
                "say": Annotated[str, Field(min_length=1, max_length=5)],
                "the_levers": Annotated[list[bool], Field(min_length=2, max_length=2)],
            },
        ),
        {"go to": 2, "push": [0.5, -7.0], "say": "hello", "the_levers": [True, False]},
    ),
    "Tuple": (
        spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 3])]),
        TypedDict(
            "Action",
            {
                "action_0": Annotated[int, Field(ge=0, le=1)],
                "action_1": Annotated[
                    list[Annotated[int, Field(ge=0, le=2)]],
                    Field(min_length=2, max_length=2),
                ],
            },
        ),
        {"action_1": [1, 2], "action_0": 1},
    ),
}


@pytest.fixture
def register():
    """Registers an environment: by default, one with this action space."""
    names = []

    def register_one(about: Any, kind: type = Spaces) -> str:
        names.append(f"Registered{len(names)}-v0")
        gymnasium.register(
            names[-1], entry_point=lambda **options: kind(about, **options)
        )
        return names[-1]

    yield register_one
    for name in names:
        del gymnasium.registry[name]


@pytest.mark.parametrize("kind", SPACES)
def test_the_type_of_other_action_spaces(write, register, tmp_path, kind):
    space, action, good = SPACES[kind]
    _, module = write(register(space))
    assert schema_of(facts_of(module.MyEnv).action) == schema_of(action)
    episode = module.MyEnv({})
    assert episode.step(good) == "1\nReward: 0.5. The episode is over."
    assert episode.reward() == 0.5
    module.MyEnv({}).step(action_of(module))
    lint(tmp_path, STYLE)


def test_another_environment_keeps_all_other_lines(write, register, tmp_path):
    text, _ = write(register(SPACES["Dict"][0]))
    text = text.replace("Take one action", "Pull a lever").replace("50  #", "40  #")
    text += "\n    def peek(self, deep: bool) -> str:\n        return str(deep)\n"
    (tmp_path / "my_env.py").write_text(text)
    changed, _ = written(tmp_path, "FrozenLake-v1")
    (tmp_path / "my_env.py").write_text(changed)
    lines = {*text.splitlines()} ^ {*changed.splitlines()}
    words = {line.strip().partition(" = ")[0] for line in lines}
    title = {line for line in words if line.endswith('an object plays one episode."""')}
    assert words - title == {"id", "render_mode", "reward_range_estimated"}
    assert "reward_range = (0.0, 1.0)" in changed
    lint(tmp_path, STYLE)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4"])
def test_a_class_of_an_earlier_release_has_its_own_action(project, tmp_path, name):
    """It is still written for its own environment, but another one needs another type."""
    text = (project / "my_env.py").read_text()
    text = text.replace("Action, GymnasiumEpisode", "TabularEpisode")
    text = text.replace("(GymnasiumEpisode)", "(TabularEpisode)")
    text = text.replace("\n\nclass", f"\n{BEFORE_0_7.splitlines()[4]}\n\n\nclass")
    (tmp_path / "my_env.py").write_text(f"from typing import Literal\n{text}")
    old, new = class_in(tmp_path / "my_env.py"), class_in(project / "my_env.py")
    assert facts_of(old) == facts_of(new)
    assert old.oracle({"seed": 1}) == new.oracle({"seed": 1})
    if name == old.id:
        assert written(tmp_path, name)[0] == (tmp_path / "my_env.py").read_text()
    else:
        with pytest.raises(GateError, match="MyEnv has the Action of FrozenLake-v1"):
            written(tmp_path, name)


def test_models_and_more_tools_stand_in_the_class(render, tmp_path):
    answers = {"models": ["judge"], "tools": "step; peek(n: int)  # Look."}
    project = render(archetype="gymnasium", **answers)
    shutil.copy(project / "my_env.py", tmp_path)
    lint(tmp_path, STYLE)
    for name in ("FrozenLake-v1", "Pendulum-v1"):
        (tmp_path / "my_env.py").write_text(written(tmp_path, name)[0])
        lint(tmp_path, STYLE)
        environment = load_module(tmp_path / "my_env.py", "judged_env").MyEnv
        assert environment({}, "a judge").judge == "a judge"
        assert (environment.id, environment.peek.__doc__) == (name, "Look.")


BEFORE_0_7 = """
from typing import Literal

ID, MAX_STEPS, RENDER_MODE = "FrozenLake-v1", 40, "ansi"
Action = Literal["move_left", "move_down", "move_right", "move_up"]


class MyEnv:
    pass
"""


def test_rows_are_made_over_a_class_from_before_0_7(tmp_path, project):
    """An update brings a new make_rows.py, and leaves the class as it is."""
    (tmp_path / "my_env.py").write_text(BEFORE_0_7)
    before = load_module(tmp_path / "my_env.py", "older_env").MyEnv
    now = class_in(project / "my_env.py")
    assert facts_of(before) == facts_of(now)._replace(max_steps=40)
    assert rules(before) == rules(now)


def test_a_class_from_before_0_7_is_not_rewritten(render, tmp_path):
    project = tmp_path / "my_env"
    shutil.copytree(render(archetype="gymnasium"), project)
    (project / "my_env.py").write_text(BEFORE_0_7)
    command = [sys.executable, "-m", "env_runtime.gymnasium", "Taxi-v4"]
    path = import_path(project)
    done = run(command, project / "nemo_gym", check=False, PYTHONPATH=path)
    assert done.returncode == 1
    assert "MyEnv does not derive from GymnasiumEpisode" in done.stdout
    assert (project / "my_env.py").read_text() == BEFORE_0_7


def test_an_action_that_its_type_allows_and_its_space_does_not_is_refused(
    write, register
):
    module = write(register(spaces.MultiDiscrete([2, 3])))[1]
    with pytest.raises(ValueError, match=r"action must be in MultiDiscrete"):
        module.MyEnv({}).step([2, 2])


def test_each_number_of_a_box_is_clipped_to_its_own_bounds(write, register):
    box = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 2.0]))
    module = write(register(box))[1]
    assert module.MyEnv({}).step([-1.0, -1.0]).endswith("The episode is over.")


class Odd(gymnasium.Env):
    """Like environments on the index: no render_mode, a bool as observation, arrays."""

    metadata = {"render_modes": []}  # noqa: RUF012
    action_space = spaces.Text(5)
    observation_space = spaces.MultiBinary(2)
    P = np.eye(2)  # not a table of transitions

    def __init__(self, seen):
        self.seen = seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen, {}

    def step(self, action):
        return self.seen, np.array([2.5]), np.bool_(False), True, {}


@pytest.mark.parametrize(
    "seen, text",
    [
        (np.array([True, False]), "[true, false]"),
        (np.array([0.1, -0.0023], np.float32), "[0.1, -0.0023]"),
        (
            {"goal": np.float32(0.3), "lit": np.bool_(True)},
            '{"goal": 0.3, "lit": true}',
        ),
        ('A door leads "north".', 'A door leads "north".'),
    ],
)
def test_an_environment_unlike_those_of_gymnasium(write, register, seen, text):
    source, module = write(register(seen, Odd))
    assert "\n    reward_range_estimated = True  # remove this" in source
    episode = module.MyEnv({})
    assert episode.observation() == text
    assert episode.step("open") == f"{text}\nReward: 2.5. The episode is over."
    assert episode.reward() == 2.5


class Undrawn(Spaces):
    """Says that it shows text, but has no render()."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(self, action_space, render_mode=None):
        super().__init__(action_space)
        self.render_mode = render_mode


class Blank(Undrawn):
    """Has a render() that shows nothing."""

    def render(self):
        return None


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(Undrawn, "NotImplementedError"), (Blank, "render() returned NoneType")],
)
def test_an_environment_that_shows_no_text(write, register, capsys, kind, problem):
    name = register(spaces.Discrete(2), kind)
    _, module = write(name)
    assert f"{name} shows no text as ansi: {problem}" in capsys.readouterr().out
    assert module.MyEnv({}).observation() == "0"


def test_actions_that_are_no_enumeration_give_no_names(write, register, monkeypatch):
    """Tetris of tetris-gymnasium has an object there that cannot be iterated."""
    monkeypatch.setattr(Spaces, "actions", SimpleNamespace(left=0), raising=False)
    _, module = write(register(spaces.Discrete(2)))
    number = Annotated[int, Field(ge=0, le=1)]
    assert schema_of(facts_of(module.MyEnv).action) == schema_of(number)


HORIZON = "no random episode ended within max_steps, 50, and the environment allows 200"
ESTIMATE = "is an estimate: random episodes earned"
SOLVED = ", but it counts as solved at "
NAMELESS = "actions have no names"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("FrozenLake-v1", []),
        ("CartPole-v1", [f"{SOLVED}475. An episode that earns more or less gets no"]),
        ("MountainCarContinuous-v0", [NAMELESS, f"{SOLVED}90. ", "999"]),
        ("MountainCar-v0", [ESTIMATE, HORIZON]),
        ("Pendulum-v1", [NAMELESS, ESTIMATE, HORIZON]),
    ],
)
def test_what_to_look_at_in_the_class(project, name, expected):
    _, notes = written(project, name)
    assert len(notes) == len(expected)
    assert all(text in note for text, note in zip(expected, notes, strict=True))
    assert all("-d max_turns=240" in note for note in notes if HORIZON in note)


NESTED = spaces.Dict({"town": spaces.Tuple([spaces.Discrete(2)])})


class Broken(Spaces):
    """An environment whose steps fail."""

    def step(self, action):
        return 1 / 0


@pytest.mark.parametrize(
    "space, kind, problem",
    [
        (spaces.Discrete(2), Broken, "random actions failed: ZeroDivisionError"),
        (NESTED, Spaces, r"has the action space Tuple\(Discrete\(2\)\)"),
    ],
)
def test_an_environment_that_cannot_be_played_is_named(
    project, register, space, kind, problem
):
    with pytest.raises(GateError, match=problem):
        written(project, register(space, kind))


@pytest.mark.parametrize(
    "name, problem",
    [
        ("Nothing-v9", r"gymnasium.make\('Nothing-v9'\) failed: NameNotFound"),
        ("nothing:Nothing-v9", "ModuleNotFoundError"),
    ],
)
def test_an_unknown_environment_is_named(project, name, problem):
    with pytest.raises(GateError, match=problem):
        written(project, name)


def test_the_rows_of_the_archetype_are_solved_and_start_with_the_board(write):
    """tests/test_environments.py makes rows where the environment is installed."""
    environment = write("FrozenLake-v1")[1].MyEnv
    tasks = json.loads((ROOT / "archetypes/gymnasium/tasks.json").read_text())
    assert {task["difficulty"] for task in tasks} == {"easy", "medium", "hard"}
    for task in tasks:
        episode = environment(task["ground_truth"])
        assert task["prompt"].endswith(episode.observation())
        for tool, arguments in environment.oracle(task["ground_truth"]):
            getattr(episode, tool)(**arguments)
        assert episode.reward() == 1.0


def test_another_environment_has_no_rows_of_frozen_lake(render):
    """Nothing would say that the class was not completed."""
    project = render(archetype="gymnasium", gymnasium_id="Taxi-v4")
    assert (project / "nemo_gym/data/example.jsonl").read_text() == ""


def test_gymnasium_is_installed_whatever_the_class_imports(render):
    project = render(archetype="gymnasium", dependencies="minatar")
    settings = (project / "nemo_gym/pyproject.toml").read_text()
    assert '"nemo-gym-env-runtime[gymnasium,nemo-gym]"' in settings


def test_the_tool_can_have_another_name(render):
    project = render(archetype="gymnasium", tools="act", siblings=["openenv"])
    written = (project / "my_env.py").read_text()
    assert "    def act(self, action: Action) -> str:" in written
    assert '    tool = "act"  # ' in written
    first, *_ = (project / "nemo_gym/data/example.jsonl").read_text().splitlines()
    [tool] = json.loads(first)["responses_create_params"]["tools"]
    assert tool["name"] == "act"
    assert "Call `act` with one action" in first
    tests = (project / "nemo_gym/tests/test_environment.py").read_text()
    assert 'client.post("/act"' in tests


def test_the_archetype_keeps_its_tool(template, tmp_path):
    answers = {"archetype": "gymnasium", "tools": "act; peek"}
    with pytest.raises(ValueError, match="has one tool, 'step', got \"act; peek\""):
        render_project(template, tmp_path / "my_env", **answers)


def test_the_module_that_registers_an_environment_is_not_taken_for_the_class(
    template, tmp_path
):
    """Its name is often the folder's, too."""
    project = tmp_path / "digging"
    project.mkdir()
    (project / "digging.py").write_text("import gymnasium\n")
    answers = {"archetype": "gymnasium", "gymnasium_id": "digging:Dig-v0"}
    render_project(template, project, **answers)
    assert (project / "digging.py").read_text() == "import gymnasium\n"
    assert "class Digging(" in (project / "digging_env.py").read_text()
    with pytest.raises(ValueError, match='that the class imports, got "digging"'):
        render_project(template, tmp_path / "e", domain_module="digging", **answers)


def test_the_class_may_not_hide_what_its_module_imports(render, template, tmp_path):
    render_project(template, tmp_path / "field", archetype="gymnasium")
    assert "class FieldEnv(" in (tmp_path / "field/field.py").read_text()
    with pytest.raises(ValueError, match='domain_class must not be .*, got "Action"'):
        render_project(
            template, tmp_path / "e", archetype="gymnasium", domain_class="Action"
        )
    # A project of an earlier release may have such a class.
    assert "class Field:" in (render(domain_class="Field") / "my_env.py").read_text()


@pytest.mark.parametrize("id_", ["Frozen Lake", "", "Taxi-v4\n", "x'); import os"])
def test_an_id_that_gymnasium_could_not_take_is_refused(template, tmp_path, id_):
    answers = {"archetype": "gymnasium", "gymnasium_id": id_}
    with pytest.raises(ValueError, match="gymnasium_id must be an id such as"):
        render_project(template, tmp_path / "my_env", **answers)
    assert not (tmp_path / "my_env").exists()


def test_a_class_of_the_users_own_needs_none_of_it(copy, tmp_path):
    project = tmp_path / "lake"
    project.mkdir()
    (project / "lake.py").write_text("class Lake:\n    pass\n")
    copy(project, archetype="gymnasium", tools="look")
    assert "gymnasium" not in (project / "nemo_gym/pyproject.toml").read_text()
