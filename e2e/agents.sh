#!/usr/bin/env bash
# The four agents from npm, at the versions that the shipped table knows, against the scripted model of
# `callgate agent probe`: exactly our tools are offered, a forced native call has no effect, our call
# reaches the gate, and hostile files are ignored. Then whole steps, see steps.py, and the eight scenarios in boxes with
# namespaces and without, see scenarios.py. With `hostile` the corpus of hostile projects and users instead, in boxes with
# namespaces and without, and then with bare agents, see hostile.py; with `attended` each agent at a terminal, see attended.py.
# After the installation nothing but loopback is reachable, where network namespaces are allowed.
#
# usage: agents.sh CALLGATE FOLDER [hostile|attended]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
callgate=$1
folder=$2
packages=(
  @anthropic-ai/claude-code@2.1.325
  @google/gemini-cli@0.61.0
  @openai/codex@0.166.0
  opencode-ai@1.18.33
)

mkdir -p "$folder"
cd "$folder"
if [ "$(cat installed 2>/dev/null || true)" != "${packages[*]}" ]; then
  echo '{"private":true}' > package.json
  npm install --no-audit --no-fund --loglevel=error "${packages[@]}"
  echo "${packages[*]}" > installed
fi
export PATH="$folder/node_modules/.bin:$PATH"
if [ -z "${OFFLINE:-}" ] && unshare -rn true 2>/dev/null; then
  OFFLINE=1 exec unshare -rn bash -c 'ip link set lo up && exec bash "$@"' - "$here/agents.sh" "$@"
fi

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME="$home" TMPDIR="$home/tmp"
mkdir -p "$TMPDIR"

# Runs a command as on a kernel that refuses namespaces.
without_namespaces() {
  unshare -r bash -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"' - "$@"
}

if [ "${3:-}" = hostile ]; then
  echo "in boxes with namespaces"
  python3 "$here/hostile.py" "$callgate" "$home/h"
  echo "in boxes without namespaces"
  without_namespaces python3 "$here/hostile.py" "$callgate" "$home/n"
  echo "control: bare agents"
  python3 "$here/hostile.py" "$callgate" "$home/c" --control
  exit
fi

if [ "${3:-}" = attended ]; then
  python3 "$here/attended.py" "$callgate" "$home/t" "$here/../docs/pictures"
  exit
fi

"$callgate" agent probe --json --data-dir "$home/data" > "$home/probe.json"
python3 - "$home/probe.json" <<'PY'
import json, sys
reports = json.load(open(sys.argv[1]))
wrong = [
    r for r in reports
    if r.get("verdict") != "isolated" or r["native_effect"] or not r["reached"] or r["obeyed"] or not r["planted"]
    or not r["boxed"] or r["boxed"]["error"]
]
for r in reports:
    offered = len(r.get("offered", []))
    hostile = f'{r.get("planted")} hostile files, obeyed {r.get("obeyed")}'
    print(f'{r["provider"]:10} {r.get("version")} {offered} offered, native {r.get("native")}, {hostile}, {r.get("verdict")} {r["error"] or ""}')
    print(f'{"":10} box: {r.get("boxed")}')
sys.exit(1 if wrong or len(reports) != 4 else 0)
PY
"$callgate" activity export --data-dir "$home/data" > "$home/records.jsonl"
reached=$(grep -c '"tool":"Write".*"status":"success"' "$home/records.jsonl")
# One call of each agent without a box, one from its box.
[ "$reached" -eq 8 ] || { echo "error: $reached of 8 calls are on record"; exit 1; }
echo "4 agents isolated, 8 calls on record"

# The same agents in the home of a user who has configured each of them.
python3 "$here/steps.py" "$callgate" "$home"
echo "in boxes with namespaces"
python3 "$here/scenarios.py" "$callgate" "$home/s"
echo "in boxes without namespaces"
without_namespaces python3 "$here/scenarios.py" "$callgate" "$home/n"
