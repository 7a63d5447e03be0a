#!/usr/bin/env bash
# Expected: on `copier update` a template's tasks run once, in the project, after the user's edits were merged.
# Instead: they run three times: in a copy of the old version, in the project before its edits are put back, and in a copy of
#   the new version. The task sees "update" each time and never sees the edit. A migration with the stage "after" does.
# Version: copier 9.19.1
# In this project: copier.yml runs its tasks for "copy" only, and in a migration after an update.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python copier==9.19.1
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me@example.com
export GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me@example.com TASK_LOG="$work/log"

commit() { git -C "$1" add -A && git -C "$1" commit -qm "$2"; }
mkdir template && git -C template init -q
cat > template/copier.yml <<'YAML'
_subdirectory: project
_tasks:
  - printf '%s, %s, %s\n' '{{ _copier_operation }}' "$(cat note.txt | tr '\n' ' ')" "$(basename "$PWD" | cut -d. -f1,2)" >> "$TASK_LOG"
_migrations:
  - when: "{{ _stage == 'after' }}"
    command: printf 'migration, %s\n' "$(cat note.txt | tr '\n' ' ')" >> "$TASK_LOG"
YAML
mkdir template/project
echo hello > template/project/note.txt
echo '{{ _copier_answers | to_nice_yaml }}' > 'template/project/{{ _copier_conf.answers_file }}.jinja'
commit template one && git -C template tag v1

venv/bin/copier --version
venv/bin/copier copy -q --trust --defaults "$work/template" project
git -C project init -q && commit project copied
echo edited >> project/note.txt && commit project edited
echo more > template/project/more.txt && commit template two && git -C template tag v2
venv/bin/copier update -q --trust --defaults project
cat log project/note.txt
cat > expected <<'TEXT'
copy, hello , project
update, hello , copier._main
update, hello , project
update, hello , copier._main
migration, hello edited 
TEXT
diff expected log
[ "$(tail -n 1 project/note.txt)" = edited ]
