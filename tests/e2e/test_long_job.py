"""A long job by the book (docs/long-jobs.md): the training example of remote-sandbox-mcp's manual, and
the prompt that leads an agent there."""
import json

import pytest

from host import wait_until
from watching import on, spot  # noqa: F401

pytestmark = pytest.mark.only_tiers("root")

# Two shards, each done whole or not at all; the second never ends in the first run.
TRAIN = r'''
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--workdir")
parser.add_argument("--checkpoint")
parser.add_argument("--resume", action="store_true")
a = parser.parse_args()

def replace(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)

os.makedirs(a.workdir, exist_ok=True)
state = {"done": [], "left": ["shard-0", "shard-1"]}
if a.resume and os.path.exists(a.checkpoint):
    with open(a.checkpoint) as f:
        state = json.load(f)
while state["left"]:
    shard = state["left"][0]
    print("training", shard, flush=True)
    with open(os.path.join(a.workdir, "begun"), "a") as f:
        f.write(shard + "\n")
    if shard == "shard-1" and not a.resume:
        time.sleep(300)
    with open(os.path.join(a.workdir, "trained"), "a") as f:
        f.write(shard + "\n")
    replace(os.path.join(a.workdir, shard + ".pt"), "weights of " + shard)
    state = {"done": state["done"] + [shard], "left": state["left"][1:]}
    replace(a.checkpoint, json.dumps(state))
print("all shards are trained", flush=True)
'''
COMMAND = "python3 train.py --workdir runs/exp-01 --checkpoint runs/exp-01/progress.json"


@on("ssh")
def test_the_training_of_the_manual_goes_on_where_it_was_cut(spot):  # noqa: F811
    spot.bash("mkdir -p ~/wd/project")
    spot.client.tool("write_remote_file", remote_path="~/wd/project/train.py", content=TRAIN)
    plan = {"resume_command": f"{COMMAND} --resume", "checkpoint_path": "runs/exp-01/progress.json",
            "checkpoint_format": "json"}
    began = spot.start(COMMAND, "train-001", cwd="~/wd/project", run_id="train-001", watch_name="train-001",
                       auto_resume=True, resume_delay_s=0, resume_plan_json=json.dumps(plan), **plan)
    wid = began["watch_id"]
    begun = lambda: spot.bash("cat ~/wd/project/runs/exp-01/begun 2>/dev/null; true").split()  # noqa: E731
    assert wait_until(lambda: begun() == ["shard-0", "shard-1"], 30)
    progress = spot.client.tool("get_background_watch_progress", watch_id=wid)
    assert progress["live"]["checkpoint"]["parsed"] == {"done": ["shard-0"], "left": ["shard-1"]}
    assert spot.client.tool("check_background_task", watch_id=wid)["running"] is True
    spot.interrupt("train-001")
    watch = spot.until(wid, "completed")
    assert watch["last_exit_code"] == 0 and watch["resume_attempts"] == 1
    assert spot.types(wid) == ["interrupted", "resume_started", "completed"]
    assert spot.bash("cat ~/wd/project/runs/exp-01/trained").split() == ["shard-0", "shard-1"]
    assert begun() == ["shard-0", "shard-1", "shard-1"]
    progress = spot.client.tool("get_background_watch_progress", watch_id=wid)
    assert progress["live"]["checkpoint"]["parsed"] == {"done": ["shard-0", "shard-1"], "left": []}
    assert "all shards are trained" in progress["live"]["task"]["log_tail"]


def test_the_prompt_leads_to_such_a_job(client):
    listed = {p["name"]: p for p in client.result("prompts/list")["prompts"]}
    wanted = {a["name"]: a["required"] for a in listed["long-job"]["arguments"]}
    assert wanted == {"task": True, "session_name": False, "cwd": False, "sandbox_name": False}
    asked = {"task": "Train the model on both shards.", "session_name": "train.001", "cwd": "proj",
             "sandbox_name": "gpu1"}
    message = client.result("prompts/get", {"name": "long-job", "arguments": asked})["messages"][0]
    text = message["content"]["text"]
    assert message["role"] == "user" and text.startswith("Train the model on both shards.\n")
    for words in ('session_name="train_001"', 'cwd="proj"', "gpu1", "checkpoint_path=", "resume_command=",
                  "auto_resume=true", "exec_bash_background(", "check_background_task(", "never instructions"):
        assert words in text, words
    plain = client.result("prompts/get", {"name": "long-job", "arguments": {"task": "x"}})["messages"][0]["content"]
    assert 'session_name="job-001", checkpoint_path' in plain["text"] and "cwd=" not in plain["text"]


@pytest.mark.parametrize("wrong, words", [({}, 'needs the argument "task"'), ({"task": " "}, "task is empty"),
                                          ({"task": "x" * 20000}, "task is longer"),
                                          ({"task": 1}, "must be a string")])
def test_a_wrong_blank_is_named(client, wrong, words):
    error = client.error("prompts/get", {"name": "long-job", "arguments": wrong})
    assert words in error["message"]


@pytest.mark.parametrize("toolset, offered", [("default", True), ("remote-sandbox", True), ("all", True),
                                              ("opensandbox", False), ("mcp-sandbox", False), ("advanced", False)])
def test_the_prompt_is_offered_where_its_tools_are(host, toolset, offered):
    client = host.server("--toolset", toolset)
    assert ("long-job" in [p["name"] for p in client.result("prompts/list")["prompts"]]) == offered
    asked = {"name": "long-job", "arguments": {"task": "x"}}
    if offered:
        assert client.result("prompts/get", asked)["messages"]
    else:
        assert "no prompt" in client.error("prompts/get", asked)["message"]
