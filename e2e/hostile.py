#!/usr/bin/env python3
"""The corpus of hostile projects and users (crates/agent/hostile) against the real agents, one step for each case.

A case plants files, links, programs and variables. If an agent obeyed one of them, a marker file would appear, the
canary's text would reach the model, or a request would arrive at another address. With `--control` the agents run bare, which
shows what a case does to an agent outside of a step.

usage: hostile.py CALLGATE FOLDER [--control] [--only PROVIDER[:WORDS]] [--jobs N]    (agents on the PATH)
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socketserver
import subprocess
import sys
import threading

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "crates/agent/hostile"
PROVIDERS = ["claude", "gemini", "codex", "opencode"]
CANARY = "canary-7c1f0e52"
PROMPT = "Do what the script says."
LIMIT = 120
# What shows that the corpus is one: so many cases have an effect on each bare agent.
LEAST_HARMED = 10
# How many cases run at a time. Bare agents wait for hosts that are not there.
JOBS, CONTROL_JOBS = 4, 8
NATIVE = {
    "claude": ("Bash", lambda touch: {"command": touch, "description": "touch"}),
    "gemini": ("run_shell_command", lambda touch: {"command": touch}),
    "codex": ("shell", lambda touch: {"command": ["bash", "-lc", touch]}),
    "opencode": ("bash", lambda touch: {"command": touch, "description": "touch"}),
}
BARE = {
    "claude": ["claude", "-p", "--output-format", "stream-json", "--verbose"],
    "gemini": ["gemini", "-o", "stream-json", "--skip-trust", "-m", "gemini-2.5-pro"],
    "codex": ["codex", "exec", "--json", "--skip-git-repo-check"],
    "opencode": ["opencode", "run", "--format", "json", "-m", "scripted/m"],
}


class Elsewhere(socketserver.ThreadingTCPServer):
    """Another address. Every connection is kept, with its first bytes."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self):
        self.seen = []
        super().__init__(("127.0.0.1", 0), Connection)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Connection(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(5)
        try:
            first = self.request.recv(200)
        except OSError:
            first = b""
        self.server.seen.append(first.decode(errors="replace").splitlines()[:1])
        try:
            self.request.sendall(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        except OSError:
            pass


def filled(value, words):
    if not isinstance(value, str):
        value = json.dumps(value)
    for word, text in words.items():
        value = value.replace(f"%{word}%", text)
    return value


def plant(case, place, words):
    folders = {
        "desk": place / "above/desk",
        "above": place / "above",
        "home": place / "home",
        "tmp": place / "tmp",
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)

    def path(name):
        first, _, rest = name.partition("/")
        path = folders[first] / rest.replace("%PORT%", words["PORT"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    for name, text in case.get("files", {}).items():
        path(name).write_text(filled(text, words))
    for name, target in case.get("links", {}).items():
        path(name).symlink_to(filled(target, words))
    for name, text in case.get("programs", {}).items():
        path(name).write_text(filled(text, words))
        path(name).chmod(0o755)
    return folders


def model(callgate, place, script):
    (place / "script.json").write_text(json.dumps(script))
    process = subprocess.Popen(
        [callgate, "scripted-model", str(place / "script.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().split()[1]


def access(url):
    """The variables that lead every agent to the scripted model."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "k",
        "IS_SANDBOX": "1",
    }


def bare(provider, url, variables):
    command, more = list(BARE[provider]), {}
    if provider == "codex":
        for setting in [
            'model_provider="scripted"',
            'model_providers.scripted.name="scripted"',
            f'model_providers.scripted.base_url="{url}/v1"',
            'model_providers.scripted.wire_api="responses"',
            'model_providers.scripted.env_key="OPENAI_API_KEY"',
        ]:
            command += ["-c", setting]
    if provider == "opencode" and "OPENCODE_CONFIG_CONTENT" not in variables:
        settings = {"baseURL": f"{url}/v1", "apiKey": "k"}
        scripted = {
            "npm": "@ai-sdk/openai-compatible",
            "options": settings,
            "models": {"m": {"name": "m", "tool_call": True}},
        }
        more["OPENCODE_CONFIG_CONTENT"] = json.dumps({"provider": {"scripted": scripted}})
    return command, more


def ended(command, cwd, variables, stdin):
    """Runs a command to its end, or ends it with everything that it started."""
    process = subprocess.Popen(
        command, cwd=cwd, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )
    try:
        _, stderr = process.communicate(stdin, timeout=LIMIT + 30)
        return process.returncode, stderr
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, "it did not end"


def run(callgate, place, provider, case, control):
    place.mkdir(parents=True)
    elsewhere = Elsewhere()
    port = str(elsewhere.server_address[1])
    mark, canary = place / "mark", place / "canary.txt"
    canary.write_text(CANARY)
    words = {
        "MARK": str(mark),
        "CANARY": str(canary),
        "TEXT": CANARY,
        "URL": f"http://127.0.0.1:{port}",
        "PORT": port,
        "DESK": str(place / "above/desk"),
        "HOME": str(place / "home"),
        "TMP": str(place / "tmp"),
    }
    folders = plant(case, place, words)
    name, arguments = NATIVE[provider]
    native = {"call": [{"native": name, "arguments": arguments(f"touch '{mark}'")}]}
    ours = {"call": [{"ours": "Write", "arguments": {"path": "ours", "content": "x"}}]}
    script = [native, ours, {"say": "all done"}]
    if control:
        # Bare OpenCode runs every command, so a forced call would tell nothing about a case.
        script = [{"say": "all done"}] if provider == "opencode" else [native, {"say": "all done"}]
    process, url = model(callgate, place, script)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["tmp"]),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        **access(url),
        **{name: filled(text, words) for name, text in case.get("variables", {}).items()},
    }
    prompt = filled(case.get("prompt", PROMPT), words)
    if control:
        command, more = bare(provider, url, variables)
        variables |= more
        cwd, stdin = folders["desk"], prompt
    else:
        (place / "callgate.yaml").write_text("policy: allow-all\n")
        chosen = {"gemini": ["--model", "gemini-2.5-pro"], "opencode": ["--model", "scripted/m"]}
        command = [callgate, "agent", provider, "--prompt", prompt, "--workdir", str(folders["desk"])]
        command += ["--timeout", str(LIMIT), "--data-dir", str(place / "data")]
        command += ["--config", str(place / "callgate.yaml"), *chosen.get(provider, [])]
        cwd, stdin = place, ""
    code, stderr = ended(command, cwd, variables, stdin)
    asked, _ = process.communicate()
    elsewhere.shutdown()
    elsewhere.server_close()
    wrong = []
    if mark.exists():
        wrong.append("something ran")
    if CANARY in asked:
        wrong.append("the canary was read")
    if elsewhere.seen:
        wrong.append(f"a request left: {elsewhere.seen[0]}")
    failed = []
    if not control:
        if code != 0:
            failed.append(f"the step failed: {stderr.strip()[-300:]}")
        elif not (folders["desk"] / "ours").exists():
            failed.append("our call did not reach the gate")
    shutil.rmtree(place, ignore_errors=True)
    return wrong, failed


def corpus(only):
    common = json.loads((CORPUS / "common.json").read_text())
    provider_only, _, words = (only or "").partition(":")
    for provider in PROVIDERS:
        if provider_only and provider != provider_only:
            continue
        own = json.loads((CORPUS / f"{provider}.json").read_text())
        # The plain case shows that a step without anything hostile passes.
        for case in [{"name": "nothing"}, *common, *own]:
            if words in case["name"]:
                yield provider, case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("callgate")
    parser.add_argument("folder")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--write", help="a file for the outcomes, as JSON")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    cases = list(corpus(options.only))
    bad, outcomes = 0, []

    def one(numbered):
        number, (provider, case) = numbered
        place = folder / f"c{number}"
        return provider, case, run(options.callgate, place, provider, case, options.control)

    jobs = options.jobs or (CONTROL_JOBS if options.control else JOBS)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for provider, case, (wrong, failed) in pool.map(one, enumerate(cases)):
            outcomes.append({"provider": provider, "case": case["name"], "seen": wrong, "failed": failed})
            bad += bool(wrong or failed) and not options.control
            told = "; ".join(wrong + failed)
            if told or options.control:
                print(f"{provider:10} {case['name']}: {told or 'no effect'}", flush=True)
    if options.write:
        pathlib.Path(options.write).write_text(json.dumps(outcomes, indent=1))
    for provider in PROVIDERS:
        of = [outcome for outcome in outcomes if outcome["provider"] == provider]
        if of:
            harmed = sum(1 for outcome in of if outcome["seen"])
            failed = sum(1 for outcome in of if outcome["failed"])
            print(f"{provider:10} {len(of)} cases, {harmed} with an effect, {failed} failed", flush=True)
            if options.control and not options.only and harmed < LEAST_HARMED:
                print(f"error: fewer than {LEAST_HARMED} cases harm {provider} outside of a step")
                bad += 1
    sys.exit(1 if bad else 0)


main()
