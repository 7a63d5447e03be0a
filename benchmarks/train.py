"""Train a tiny random model on a generated environment, with GRPO by TRL, over HTTP.

    cd TEMPLATE && uv run --no-project --python 3.13 --with trl --with torch \
        --with requests --with pydantic-settings --with matplotlib \
        python benchmarks/train.py [--steps 60] [--picture docs/training.png]

Generates an environment around the class REPEAT, starts its server, and trains a
transformer of 0.1 million parameters, which is made here with its tokenizer: only
packages are downloaded. Uses a GPU if there is one. Prints the mean reward of each step
and, at the end, the model's answer to each row.

This shows that the whole path works: trainer, rollout, server, grade, gradient. It says
nothing about how well a language model learns.
"""

import argparse
import contextlib
import json
import os
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
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} {% endfor %}"
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


def generate(project: Path) -> None:
    """Generate an environment around REPEAT, and install it."""
    (project / "nemo_gym/data").mkdir(parents=True)
    (project / "repeat.py").write_text(REPEAT)
    lines = "".join(json.dumps(row) + "\n" for row in rows())
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


def make_model() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A random transformer, and a tokenizer that knows the words of the rows."""
    words = ["<pad>", "<end>", "<unknown>", "<user>", "<assistant>", "repeat", *DIGITS]
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
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unknown>",
        chat_template=TEMPLATE,
        padding_side="left",
    )
    return LlamaForCausalLM(config), fast


def answers(model: Any, tokenizer: Any) -> list[str]:
    """The model's answer to each row, by greedy decoding."""
    texts = []
    for row in rows():
        prompt = tokenizer.apply_chat_template(
            row["responses_create_params"]["input"],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        ).to(model.device)
        made = model.generate(**prompt, max_new_tokens=WORDS, do_sample=False)
        start = prompt["input_ids"].shape[1]
        texts.append(tokenizer.decode(made[0, start:], skip_special_tokens=True))
    return texts


def train(url: str, project: Path, steps: int, work: Path) -> list[float]:
    """The mean reward of each step."""
    sys.path.insert(0, str(ROOT / "runtime/src"))  # like pip install -e
    from env_runtime.trainers.trl import answer_reward, dataset

    torch.manual_seed(0)
    model, tokenizer = make_model()
    size = sum(parameter.numel() for parameter in model.parameters())
    gpu = torch.cuda.is_available()
    print(f"{size} parameters, on {'a GPU' if gpu else 'the CPU'}")
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=dataset(project / "nemo_gym/data/example.jsonl"),
        reward_funcs=answer_reward(url),
        args=trl.GRPOConfig(
            output_dir=str(work),
            max_steps=steps,
            learning_rate=3e-3,
            lr_scheduler_type="constant",
            per_device_train_batch_size=160,  # ten rows, each sixteen times
            num_generations=16,
            max_completion_length=WORDS,
            beta=0.0,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=not gpu,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=0,
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    for row, answer in zip(rows(), answers(model.eval(), tokenizer), strict=True):
        print(f"{row['responses_create_params']['input'][0]['content']}: {answer}")
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
    parser.add_argument("--picture", type=Path, metavar="PNG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "repeat")
        generate(project)
        with serving(project / "nemo_gym") as url:
            started = time.monotonic()
            rewards = train(url, project, options.steps, Path(folder, "work"))
            seconds = time.monotonic() - started
    for number, reward in enumerate(rewards, start=1):
        if number == 1 or number % 10 == 0:
            print(f"step {number:3}: mean reward {reward:.2f}")
    print(f"{seconds:.0f} s")
    if options.picture:
        draw(rewards, options.picture)


if __name__ == "__main__":
    main()
