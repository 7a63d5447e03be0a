"""Train a tiny random model on a generated environment, with GRPO by TRL, over HTTP.

    cd TEMPLATE && uv run --no-project --python 3.13 --with trl --with torch \
        --with requests --with pydantic-settings --with matplotlib \
        python benchmarks/train.py [--conversation] [--steps 60]
                                   [--picture docs/training.png]

Generates an environment around the class REPEAT, starts its server, and trains a
transformer of 0.1 million parameters, which is made here with its tokenizer: only
packages are downloaded. Uses a GPU if there is one. Prints the mean reward of each step
and, at the end, the model's answer to each row.

With --conversation, the class is ECHO, which answers in messages: the model must repeat
what the environment said last. Counts which tokens are learned and which are masked,
and stops if what is masked is not exactly what the environment said.

This shows that the whole path works: trainer, rollout, server, grade, gradient. It says
nothing about how well a language model learns.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch
import trl
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainerCallback,
)

ROOT = Path(__file__).resolve().parents[1]
UV = os.environ.get("UV") or shutil.which("uv") or "uv"  # `uv run` sets UV

WORDS = 4  # the number of words in an answer
DIGITS = "0123456789"
REPEAT = f'''
class Repeat:
    """Asks for one digit, {WORDS} times. The grade is the share of right words."""

    blocking = False

    def __init__(self, task: dict):
        self.digit = task.get("digit", "0")

    def reward(self, answer: str) -> float:
        words = answer.split()
        return words.count(self.digit) / max(len(words), {WORDS})

    @staticmethod
    def oracle(task: dict) -> str:
        return " ".join([task["digit"]] * {WORDS})
'''
TURNS = 2  # the number of digits in a conversation
ECHO = f'''
class Echo:
    """Names a digit, {TURNS} times; the policy repeats each. The grade is the mean share
    of right words."""

    blocking = False

    def __init__(self, task: dict):
        self.digits, self.shares = task.get("digits", "0" * {TURNS}), []

    def reply(self, answer: str) -> str | None:
        digit, words = self.digits[len(self.shares)], answer.split()
        self.shares.append(words.count(digit) / max(len(words), 1))
        rest = self.digits[len(self.shares) :]
        return f"repeat {{rest[0]}}" if rest else None

    def reward(self) -> float:
        return sum(self.shares) / {TURNS}

    @staticmethod
    def oracle(task: dict) -> list:
        return list(task["digits"])
'''
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} "
    "{% for call in message.tool_calls or [] %}"  # TRL looks for them in the text
    "{{ call.function.name }} {{ call.function.arguments }} {% endfor %}"
    "{% if message.role == 'assistant' %}<end> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def rows() -> list[dict[str, Any]]:
    """A row for each digit, in NeMo Gym's native format."""
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": f"repeat {digit}"}]
            },
            "digit": digit,
        }
        for digit in DIGITS
    ]


def conversations() -> list[dict[str, Any]]:
    """Rows of ECHO: each digit is the first of one, the others are drawn."""
    draw = random.Random(0)
    tasks = [digit + "".join(draw.sample(DIGITS, TURNS - 1)) for digit in DIGITS]
    return [
        {
            "responses_create_params": {
                "input": [{"role": "user", "content": f"repeat {digits[0]}"}]
            },
            "digits": digits,
        }
        for digits in tasks
    ]


def generate(project: Path, rows: list[dict[str, Any]]) -> None:
    """Generate an environment around REPEAT or ECHO, by its name, and install it."""
    (project / "nemo_gym/data").mkdir(parents=True)
    code = {"repeat": REPEAT, "echo": ECHO}[project.name]
    (project / f"{project.name}.py").write_text(code)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (project / "nemo_gym/data/example.jsonl").write_text(lines)
    copier = [UV, "tool", "run", "copier", "copy", "--trust", "--defaults", "--quiet"]
    subprocess.run([*copier, "-d", "tools=", str(ROOT), str(project)], check=True)


@contextlib.contextmanager
def serving(folder: Path) -> Generator[str]:
    """The URL of the environment's server, which ends with the with block."""
    [python] = folder.glob(".venv/bin/python")
    process = subprocess.Popen(
        [str(python), "server.py"],
        cwd=folder,
        env={**os.environ, "HOST": "127.0.0.1", "PORT": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr or ():
            if found := re.search(r"running on (http://\S+)", line):
                yield found[1]
                break
        else:
            raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait()


class Speaker(PreTrainedTokenizerFast):
    """A tokenizer for a model whose every answer in a conversation is a call of `say`."""

    def parse_response(self, ids: list[int], **options: Any) -> dict[str, Any]:
        text = self.decode(ids, skip_special_tokens=True)
        call = {"name": "say", "arguments": {"text": text}}
        calls = [{"type": "function", "function": call}]
        return {"role": "assistant", "content": "", "tool_calls": calls}


class Progress(TrainerCallback):
    """Prints the mean reward of the first step and of each tenth."""

    def on_log(self, args: Any, state: Any, *rest: Any, **options: Any) -> None:
        reward = state.log_history[-1].get("reward")
        if reward is not None and (
            state.global_step == 1 or state.global_step % 10 == 0
        ):
            print(f"step {state.global_step:3}: mean reward {reward:.2f}", flush=True)


class Masked(trl.GRPOTrainer):
    """GRPO that counts learned and masked tokens, and checks what is masked."""

    learned = masked = replies = 0

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        """Count each batch once. Raises SystemExit if a wrong token is masked."""
        if "tool_mask" in inputs and model.training:
            lines = zip(
                inputs["completion_ids"].tolist(),
                inputs["completion_mask"].tolist(),
                inputs["tool_mask"].tolist(),
                strict=True,
            )
            for ids, real, own in lines:
                self.count(ids[: sum(real)], own)
        return super().compute_loss(model, inputs, *rest, **options)

    def count(self, ids: list[int], own: list[int]) -> None:
        """Count one rollout. Its parts are by the policy and by the environment in turn."""
        for by_policy, part in itertools.groupby(
            zip(ids, own, strict=False), lambda pair: pair[1]
        ):
            tokens = [token for token, _ in part]
            text = self.processing_class.decode(tokens)
            if by_policy:
                self.learned += len(tokens)
            elif SAID.fullmatch(text):
                self.masked += len(tokens)
                self.replies += 1
            else:
                raise SystemExit(
                    f"the environment did not say what is masked: {text!r}"
                )


# A reply, in the words of the tokenizer: the next digit, "The episode is over.", or that
# the text is empty.
SAID = re.compile(r"<tool> (repeat \d|(<unknown> ?)+) ?<assistant>")


def make_model(more: list[str]) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A random transformer, and a tokenizer that knows the rows' words, and `more`."""
    words = ["<pad>", "<end>", "<unknown>", "<user>", "<assistant>", "repeat", *DIGITS]
    words += more
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    fast = Speaker(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unknown>",
        chat_template=TEMPLATE,
        padding_side="left",
    )
    return LlamaForCausalLM(config), fast


def next_message(model: Any, tokenizer: Any, messages: list[dict[str, Any]]) -> str:
    """The model's next message, by greedy decoding."""
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    ).to(model.device)
    made = model.generate(**prompt, max_new_tokens=WORDS, do_sample=False)
    start = prompt["input_ids"].shape[1]
    return tokenizer.decode(made[0, start:], skip_special_tokens=True)


def played(model: Any, tokenizer: Any, row: dict[str, Any], talker: Any) -> str:
    """The messages of a row's episode, which `talker` sends to the server."""
    messages = list(row["responses_create_params"]["input"])
    if talker is None:
        return f"{messages[0]['content']}: {next_message(model, tokenizer, messages)}"
    talker.reset(json.dumps(row))
    for _ in range(TURNS):
        said = next_message(model, tokenizer, messages)
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "tool", "content": talker.say(text=said)})
    reward = talker.get_reward()
    return f"{', '.join(each['content'] for each in messages)}: {reward}"


def train(
    url: str, lines: list[dict[str, Any]], project: Path, steps: int, work: Path
) -> list[float]:
    """The mean reward of each step on `lines`, the project's rows."""
    sys.path.insert(0, str(ROOT / "runtime/src"))  # like pip install -e
    from env_runtime.trainers.trl import answer_reward, dataset, environment

    talks = project.name == "echo"
    torch.manual_seed(0)
    model, tokenizer = make_model(["<tool>"] if talks else [])
    size = sum(parameter.numel() for parameter in model.parameters())
    gpu = torch.cuda.is_available()
    print(f"{size} parameters, on {'a GPU' if gpu else 'the CPU'}")
    settings: dict[str, Any] = {"reward_funcs": None if talks else answer_reward(url)}
    arguments: dict[str, Any] = {"max_completion_length": WORDS}
    if talks:
        tokenizer.response_schema = {}  # parse_response needs none, but TRL asks for one
        settings["environment_factory"] = environment(url)
        # Each turn may take all that is left, so a model that goes on is cut off.
        arguments["max_completion_length"] = TURNS * (WORDS + 6)
        arguments["max_tool_calling_iterations"] = TURNS
    trainer = Masked(
        model=model,
        processing_class=tokenizer,
        train_dataset=dataset(project / "nemo_gym/data/example.jsonl"),
        **settings,
        args=trl.GRPOConfig(
            output_dir=str(work),
            max_steps=steps,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            per_device_train_batch_size=160,  # ten rows, each sixteen times
            num_generations=16,
            beta=0.0,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=not gpu,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=0,
            **arguments,
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Progress())
    trainer.train()
    talker = environment(url)() if talks else None
    for row in lines:
        print(played(model.eval(), tokenizer, row, talker))
    if talks and not trainer.replies:
        raise SystemExit("no reply of the environment was masked")
    if talks:
        print(
            f"tokens of the policy, learned: {trainer.learned}; tokens of "
            f"{trainer.replies} replies, masked: {trainer.masked}"
        )
    return [line["reward"] for line in trainer.state.log_history if "reward" in line]


def draw(rewards: list[float], path: Path) -> None:
    """Draw the curve of the rewards as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 2.6), dpi=100, layout="constrained")
    axes.plot(range(1, len(rewards) + 1), rewards, color="#3569b0")
    axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel="step of GRPO", ylabel="mean reward", ylim=(0, 1.05))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--conversation", action="store_true", help="train on ECHO")
    parser.add_argument("--picture", type=Path, metavar="PNG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "echo" if options.conversation else "repeat")
        lines = conversations() if options.conversation else rows()
        generate(project, lines)
        with serving(project / "nemo_gym") as url:
            started = time.monotonic()
            rewards = train(url, lines, project, options.steps, Path(folder, "work"))
            seconds = time.monotonic() - started
    print(f"{seconds:.0f} s")
    if options.picture:
        draw(rewards, options.picture)


if __name__ == "__main__":
    main()
