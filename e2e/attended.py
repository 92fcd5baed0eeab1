#!/usr/bin/env python3
"""Each of the four real agents at a terminal (tmux), against the scripted model: a call that policy denies, one that is held and
approved right there, and one with a large answer. Keeps the picture of the terminal, and compares tokens and cost with what the
model said.

usage: attended.py CALLGATE FOLDER PICTURES [PROVIDER...]    (agents and tmux on the PATH)
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

PROVIDERS = ["claude", "gemini", "codex", "opencode"]
MODEL = {"gemini": ["--model", "gemini-2.5-pro"], "opencode": ["--model", "scripted/m"]}
# Dollars per million tokens, in and out: those of Claude's default model. OpenCode knows no price of the scripted model, and the
# other two report no cost.
PRICE = {"claude": (4, 20), "opencode": (0, 0)}
# What the scripted model says of each answer.
INPUT, OUTPUT = 10, 5
POLICY = """version: "1"
name: attended
rules:
  - scope: mcp_tool
    deny: [{pattern: "builtin:Write", when: 'args.path == "made"', message: "nothing is written here"}]
    require_approval: [{pattern: "builtin:Bash", message: "commands need a person"}]
    allow: [{pattern: "*:*"}]
"""
SCRIPT = [
    {"call": [{"ours": "Write", "arguments": {"path": "made", "content": "x"}}]},
    {"call": [{"ours": "Bash", "arguments": {"command": "touch approved; echo from-$((40+2))"}}]},
    {"call": [{"ours": "Read", "arguments": {"path": "large.txt"}}]},
    {"say": "all done"},
]


class Terminal:
    """A terminal of its own, of which pictures can be taken."""

    def __init__(self, name, command):
        self.tmux = ["tmux", "-L", f"callgate-{name}-{os.getpid()}", "-f", "/dev/null"]
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "150", "-y", "70", command], check=True)

    def picture(self):
        shown = subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
        return shown.stdout.rstrip() + "\n"

    def until(self, text, seconds=150):
        end = time.monotonic() + seconds
        while text not in self.picture() and time.monotonic() < end:
            time.sleep(0.2)
        return text in self.picture()

    def types(self, text):
        subprocess.run([*self.tmux, "send-keys", text, "Enter"], check=True)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)


def run(callgate, folder, pictures, provider):
    place = pathlib.Path(folder) / provider
    shutil.rmtree(place, ignore_errors=True)
    for name in ("desk", "home"):
        (place / name).mkdir(parents=True)
    # Short: the sockets of a step lie in it, and their paths have at most 107 bytes.
    tmp = tempfile.mkdtemp(prefix="cg", dir="/tmp")
    (place / "desk/large.txt").write_text("".join(f"line {number} {'x' * 60}\n" for number in range(20000)))
    (place / "policy.yaml").write_text(POLICY)
    (place / "callgate.yaml").write_text("policy: policy.yaml\n")
    (place / "script.json").write_text(json.dumps(SCRIPT))
    model = subprocess.Popen(
        [callgate, "scripted-model", str(place / "script.json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    url = model.stdout.readline().split()[1]
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "TMPDIR": tmp,
        "LANG": "C.UTF-8",
        "TERM": "screen",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "k",
        "IS_SANDBOX": "1",
    }
    data = ["--data-dir", str(place / "data"), "--config", str(place / "callgate.yaml")]
    command = [callgate, "agent", provider, "--prompt", "Do what the script says.", "--workdir", str(place / "desk")]
    command += ["--timeout", "140", *MODEL.get(provider, []), *data]
    words = ["env", "-i", *[f"{name}={value}" for name, value in variables.items()], *command]
    # The shell keeps the terminal open until its picture is taken.
    terminal = Terminal(provider, f"{shlex.join(words)}; echo exit code $?; sleep 600")
    asked = terminal.until("leaves it open:")
    held_before = not (place / "desk/approved").exists()
    if asked:
        terminal.types("y 1")
    terminal.until("exit code")
    picture = terminal.picture()
    terminal.close()
    requests, _ = model.communicate()
    shutil.rmtree(tmp, ignore_errors=True)
    requests = [json.loads(line) for line in requests.splitlines()] or [picture]
    # Requests for titles and the like are no part of the step's conversation.
    rounds = len(SCRIPT)
    listed = subprocess.run([callgate, "agent", "list", "--json", *data], capture_output=True, text=True, check=True)
    kept = json.loads(listed.stdout)[0]
    (pathlib.Path(pictures) / f"agent-{provider}.txt").write_text(picture)
    return {
        "a person was asked": asked or picture,
        "nothing ran before the answer": held_before,
        "the step succeeded": (picture.splitlines()[-1], kept["status"]) == ("exit code 0", "success") or picture,
        "the denied call is shown": "Write " in picture and "-> refused" in picture,
        "nothing was written": not (place / "desk/made").exists(),
        "the held call is shown and approved": "-> held (ap_" in picture and "-> approved (ap_" in picture,
        "the approved command ran": (place / "desk/approved").exists(),
        "its output reached the model": "from-42" in json.dumps(requests[-1]),
        "the large call is shown": 'Read {"' in picture and "-> allowed" in picture,
        "its beginning reached the model": "line 1 x" in json.dumps(requests[-1]),
        "tokens are what the model said": (kept["tokens_input"], kept["tokens_output"]) == (INPUT * rounds, OUTPUT * rounds)
        or f"{kept} after {rounds} rounds",
        "cost is that of these tokens": cost_is_right(provider, kept, rounds) or f"{kept} after {rounds} rounds",
        "the transcript has every call": kept["calls"] == 3 or kept,
    }


def cost_is_right(provider, kept, rounds):
    if provider not in PRICE:
        return kept["cost_usd"] is None
    price_in, price_out = PRICE[provider]
    expected = rounds * (INPUT * price_in + OUTPUT * price_out) / 1e6
    return kept["cost_usd"] is not None and abs(kept["cost_usd"] - expected) < 1e-9


def main():
    callgate, folder, pictures = sys.argv[1:4]
    good = True
    for provider in sys.argv[4:] or PROVIDERS:
        for what, result in run(callgate, folder, pictures, provider).items():
            good = good and result is True
            print(f"{provider:10} {'ok ' if result is True else 'NO '} {what}{'' if result is True else f': {result}'}", flush=True)
    sys.exit(0 if good else 1)


main()
