#!/usr/bin/env bash
# use_template.sh TEMPLATE NAME: replaces this checkout by an environment from the template's newest release, and commits
# it. ANSWER_ENV_NAME, ANSWER_ARCHETYPE, ANSWER_TOOLS and ANSWER_DESCRIPTION answer questions. Without any of them the
# defaults do, and the workflow stays, so that it can be run once more with answers.
set -euo pipefail

answers=()
for question in env_name archetype tools description; do
  variable=ANSWER_$(tr '[:lower:]' '[:upper:]' <<< "$question")
  if [ -n "${!variable:-}" ]; then answers+=("--data=$question=${!variable}"); fi
done

if [ -f .copier-answers.yml ]; then
  if [ ${#answers[@]} == 0 ]; then exit 0; fi
  if [ "$(git log -1 --format=%ae)" != "$(git config user.email)" ]; then
    echo "This repository has changes of its own. Change an answer with:" >&2
    echo "  uvx copier update --trust --vcs-ref=:current: --data archetype=..." >&2
    exit 1
  fi
fi

rendered=$(mktemp -d)/$2
# Tools of one's own have to be written into the rows, which takes an installed environment.
how=--skip-tasks
if [ -n "${ANSWER_TOOLS:-}" ]; then how=--trust; fi
uvx copier copy --defaults --quiet "$how" "${answers[@]}" "$1" "$rendered"
rm -rf "$rendered/nemo_gym/.venv"
if [ ! -d "$rendered/nemo_gym/vendor" ]; then # the package that a task would have built
  release=$(sed -n 's/^_commit: //p' "$rendered/.copier-answers.yml")
  clone=$(mktemp -d)
  git clone --quiet "${1/#gh:/https://github.com/}" "$clone"
  git -C "$clone" checkout --quiet "$release"
  uv build --quiet --wheel --no-create-gitignore --out-dir "$rendered/nemo_gym/vendor" "$clone/runtime"
fi
git rm -r --quiet .
cp -R "$rendered/." .
git checkout --quiet HEAD -- .github/workflows/ci.yml # a workflow's token may not write workflows
if [ ${#answers[@]} == 0 ]; then
  git checkout --quiet HEAD -- .github/use_template.sh .github/workflows/use-template.yml
fi
git add --all
git commit --quiet --message "Render the environment from $1"
