#!/usr/bin/env bash
# use_template.sh TEMPLATE NAME: replaces this checkout by an environment rendered from the template's newest release.
# The answers are the defaults; `copier update --vcs-ref=:current: --data ...` changes them afterwards.
set -euo pipefail
rendered=$(mktemp -d)/$2
uvx copier copy --defaults --skip-tasks --quiet "$1" "$rendered"
git rm -r --quiet .
cp -R "$rendered/." .
