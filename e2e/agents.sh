#!/usr/bin/env bash
# The four agents from npm, at the versions that the shipped table knows, against the scripted model of
# `callgate agent probe`: exactly our tools are offered, a forced native call has no effect, our call
# reaches the gate, and the user's own configuration stays as it is, byte for byte.
#
# usage: agents.sh CALLGATE FOLDER
set -euo pipefail
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

# A user with a configuration of each agent, and servers that must not be started.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME="$home" TMPDIR="$home/tmp"
mkdir -p "$home/.gemini" "$home/.codex" "$home/.config/opencode" "$TMPDIR"
mine="{\"mine\":{\"command\":\"touch\",\"args\":[\"$home/mine-was-started\"]}}"
echo "{\"mcpServers\":$mine}" > "$home/.claude.json"
echo "{\"mcpServers\":$mine}" > "$home/.gemini/settings.json"
printf '[mcp_servers.mine]\ncommand = "touch"\nargs = ["%s"]\n' "$home/mine-was-started" > "$home/.codex/config.toml"
echo "{\"mcp\":{\"mine\":{\"type\":\"local\",\"command\":[\"touch\",\"$home/mine-was-started\"]}}}" > "$home/.config/opencode/opencode.json"
files=(.claude.json .gemini/settings.json .codex/config.toml .config/opencode/opencode.json)
before=$(cd "$home" && sha256sum "${files[@]}")

"$callgate" agent probe --json --data-dir "$home/data" > "$home/probe.json"
python3 - "$home/probe.json" <<'PY'
import json, sys
reports = json.load(open(sys.argv[1]))
wrong = [r for r in reports if r["verdict"] != "isolated" or r["native_effect"] or not r["reached"]]
for r in reports:
    print(f'{r["provider"]:10} {r["version"]:10} {len(r["offered"])} offered, native {r["native"]}, {r["verdict"]} {r["error"] or ""}')
sys.exit(1 if wrong or len(reports) != 4 else 0)
PY
"$callgate" activity export --data-dir "$home/data" > "$home/records.jsonl"
reached=$(grep -c '"tool":"Write".*"status":"success"' "$home/records.jsonl")
[ "$reached" -eq 4 ] || { echo "error: $reached of 4 calls are on record"; exit 1; }
after=$(cd "$home" && sha256sum "${files[@]}")
[ "$before" = "$after" ] || { echo "error: a user's configuration was changed"; exit 1; }
[ ! -e "$home/mine-was-started" ] || { echo "error: a user's own server was started"; exit 1; }
left=$(find "$TMPDIR" -maxdepth 1 -name 'callgate-step-*')
[ -z "$left" ] || { echo "error: left behind: $left"; exit 1; }
echo "4 agents isolated, 4 calls on record, nothing changed, nothing left"
