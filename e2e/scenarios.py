#!/usr/bin/env python3
"""Eight scenarios on each of the four real agents, against the scripted model: what the model asked for, what the gate did
and what the agent gave back to the model.

The additive scenario uses `raw-plugin`, which is built beside CALLGATE.

usage: scenarios.py CALLGATE FOLDER [PROVIDER...]    (agents on the PATH)
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

PROVIDERS = ["claude", "gemini", "codex", "opencode"]
MODEL = {"gemini": ["--model", "gemini-2.5-pro"], "opencode": ["--model", "scripted/m"]}
# Names of scenarios come from the issue.
SCENARIOS = ["read", "edit", "bash", "deny", "hold", "large", "cancel", "additive"]
POLICY = """version: "1"
name: scenarios
rules:
  - scope: mcp_tool
    deny: [{pattern: "builtin:Write", when: 'args.path == "made"'}]
    require_approval: [{pattern: "builtin:Edit"}]
    allow: [{pattern: "*:*"}]
"""


class Stage:
    def __init__(self, callgate, folder, provider, scenario):
        self.callgate, self.provider = callgate, provider
        self.place = pathlib.Path(folder) / f"{provider[:2]}{SCENARIOS.index(scenario)}"
        shutil.rmtree(self.place, ignore_errors=True)
        self.desk = self.place / "desk"
        for name in ("desk", "home", "tmp"):
            (self.place / name).mkdir(parents=True)

    def policy(self, text):
        if text == "allow-all":
            (self.place / "callgate.yaml").write_text("policy: allow-all\n")
        else:
            (self.place / "policy.yaml").write_text(text)
            (self.place / "callgate.yaml").write_text("policy: policy.yaml\n")

    def model(self, script):
        (self.place / "script.json").write_text(json.dumps(script))
        self.scripted = subprocess.Popen(
            [self.callgate, "scripted-model", str(self.place / "script.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.scripted.stdout.readline().split()[1]

    def data(self):
        return ["--data-dir", str(self.place / "data"), "--config", str(self.place / "callgate.yaml")]

    def start(self, more=()):
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place / "tmp"),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "k",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "k",
            "IS_SANDBOX": "1",
        }
        command = [self.callgate, "agent", self.provider, "--prompt", "Do what the script says."]
        command += ["--workdir", str(self.desk), "--timeout", "120", *MODEL.get(self.provider, []), *more, *self.data()]
        return subprocess.Popen(
            command, cwd=self.place, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, script, more=()):
        self.model(script)
        process = self.start(more)
        out, err = process.communicate(timeout=180)
        return process.returncode, out, err

    def requests(self):
        """What reached the model, as one text for each request."""
        if self.scripted.returncode is None:
            self.asked, _ = self.scripted.communicate()
        return self.asked.splitlines()

    def records(self):
        export = [self.callgate, "activity", "export", *self.data()]
        lines = subprocess.run(export, capture_output=True, text=True, check=True).stdout.splitlines()
        return [json.loads(line) for line in lines]


def ours(tool, **arguments):
    return {"call": [{"ours": tool, "arguments": arguments}]}


def in_box(stage):
    """Whether the model was reached through the box's way out, and nothing else was."""
    reasons = [one["reason"] for one in stage.records() if one["tool"] == "egress.connection"]
    own = f"agent {stage.provider}, step "
    opened = [reason for reason in reasons if "outcome=opened" in reason]
    port = stage.url.rpartition(":")[2]
    elsewhere = [reason for reason in opened if f" port={port} " not in reason]
    return bool(opened) and all(reason.startswith(own) for reason in reasons) and not elsewhere or reasons


def record(stage, tool):
    found = [one for one in stage.records() if one["tool"] == tool]
    return found[-1] if found else {"decision": None, "status": None}


DONE = {"say": "all done"}


def read(stage):
    (stage.desk / "a.txt").write_text("the-text-of-the-file")
    stage.policy("allow-all")
    code, out, err = stage.run([ours("Read", path="a.txt"), DONE])
    return {
        "the step succeeded": code == 0 and out == "all done\n" or err[-300:],
        "the text reached the model": "the-text-of-the-file" in stage.requests()[-1],
        "on record": record(stage, "Read")["status"] == "success",
    }


def edit(stage):
    (stage.desk / "a.txt").write_text("old")
    stage.policy("allow-all")
    code, _, err = stage.run([ours("Edit", path="a.txt", old_string="old", new_string="new"), DONE])
    return {
        "the step succeeded": code == 0 or err[-300:],
        "the file changed": (stage.desk / "a.txt").read_text() == "new",
        "on record": record(stage, "Edit")["status"] == "success",
    }


def bash(stage):
    stage.policy("allow-all")
    code, _, err = stage.run([ours("Bash", command="echo from-$((40+2)); touch made"), DONE])
    return {
        "the step succeeded": code == 0 or err[-300:],
        "the command ran": (stage.desk / "made").exists(),
        "the output reached the model": "from-42" in stage.requests()[-1],
    }


def deny(stage):
    stage.policy(POLICY)
    code, _, err = stage.run([ours("Write", path="made", content="x"), DONE])
    return {
        "the step went on": code == 0 or err[-300:],
        "nothing was written": not (stage.desk / "made").exists(),
        "denied on record": record(stage, "Write")["decision"] == "DENY",
    }


def hold(stage):
    (stage.desk / "a.txt").write_text("old")
    stage.policy(POLICY)
    code, _, err = stage.run([ours("Edit", path="a.txt", old_string="old", new_string="new"), DONE])
    last = stage.requests()[-1]
    return {
        "the step went on": code == 0 or err[-300:],
        "nothing changed": (stage.desk / "a.txt").read_text() == "old",
        "held on record": record(stage, "Edit")["decision"] == "REQUIRE_APPROVAL" or record(stage, "Edit"),
        "the model was told": "approv" in last,
    }


def large(stage):
    # More than any agent hands on whole; the last line says whether "there is more" reached the model.
    (stage.desk / "a.txt").write_text("".join(f"line {number} {'x' * 60}\n" for number in range(20000)))
    stage.policy("allow-all")
    code, _, err = stage.run([ours("Read", path="a.txt"), DONE])
    last = stage.requests()[-1]
    return {
        "the step succeeded": code == 0 or err[-300:],
        "the beginning reached the model": "line 1 x" in last,
        "it is told that there is more": "[more lines follow: continue with offset " in last,
        "on record": record(stage, "Read")["status"] == "success",
    }


def cancel(stage):
    stage.policy("allow-all")
    stage.model([ours("Bash", command="touch begun; sleep 300; touch ended"), DONE])
    process = stage.start()
    deadline = time.monotonic() + 90
    while not (stage.desk / "begun").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    begun = (stage.desk / "begun").exists()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    stage.requests()
    left = subprocess.run(["pgrep", "-f", str(stage.place)], capture_output=True, text=True, check=False).stdout
    return {
        "the call had begun": begun,
        "the step failed": process.returncode not in (0, None),
        "the command was ended": not (stage.desk / "ended").exists(),
        "the call is settled on record": record(stage, "Bash")["status"] not in (None, "pending", "success"),
        "no process is left": left == "" or left,
        "no file is left": not list((stage.place / "tmp").glob("callgate-step-*")) or os.listdir(stage.place / "tmp"),
    }


def additive(stage):
    # Without a plugin an additive step is refused; with its own tools the agent changes the work folder itself.
    stage.policy("allow-all")
    code, _, err = stage.run([DONE], ["--mode", "additive"])
    stage.requests()
    if code != 1 or "EMPTY_PROXY" not in err:
        return {"an additive step without a plugin is refused": err[-300:]}
    folder = stage.place / "data/plugins/raw"
    folder.mkdir(parents=True)
    program = pathlib.Path(stage.callgate).with_name("raw-plugin")
    (folder / "awf-plugin-raw").symlink_to(program)
    (folder / "plugin.yaml").write_text("name: raw\nversion: 1.0.0\nawf_version: '>=0.1'\n")
    raw = {"operations": [["echo", ["text:string"]]], "log": str(stage.place / "plugin.log")}
    (folder / "raw.json").write_text(json.dumps(raw))
    code, out, err = stage.run(
        [ours("raw_echo", text="x"), DONE], ["--mode", "additive", "--plugin", "raw:echo"]
    )
    stage.requests()
    return {
        "the step succeeded": code == 0 and out == "all done\n" or err[-300:],
        "the plugin was called through the gate": record(stage, "echo")["status"] == "success",
    }


def perform(callgate, folder, provider):
    """Every scenario of one agent: the row of the table, and what was wrong."""
    cells, told = [], []
    for scenario in SCENARIOS:
        stage = Stage(callgate, folder, provider, scenario)
        try:
            checks = globals()[scenario](stage)
            checks["in its box"] = in_box(stage)
            stage.requests()
        except Exception as error:  # The other scenarios are to be seen, too.
            checks = {"the scenario came to its end": repr(error)}
        wrong = [f"{what}: {result}" for what, result in checks.items() if result is not True]
        cells.append("ok" if not wrong else "NO")
        told += [f"{provider} {scenario}: {one}" for one in wrong]
    return provider, cells, told


def main():
    callgate, folder = sys.argv[1:3]
    only = sys.argv[3:] or PROVIDERS
    good, told = True, []
    print(f"{'':10}" + "".join(f"{name:10}" for name in SCENARIOS))
    # Side by side: agents mostly wait.
    with concurrent.futures.ThreadPoolExecutor(len(only)) as pool:
        for provider, cells, wrong in pool.map(lambda provider: perform(callgate, folder, provider), only):
            good = good and "NO" not in cells
            told += wrong
            print(f"{provider:10}" + "".join(f"{cell:10}" for cell in cells), flush=True)
    print("\n".join(told))
    sys.exit(0 if good else 1)


main()
