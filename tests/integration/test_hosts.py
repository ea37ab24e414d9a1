"""Plain hosts without a scheduler that train together: each of two has a network, an sshd and a disk of its own."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from cluster import Project, Testbed, modak, wait_for
from workers import provide_images

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

# An sshd in the network of a node, which sees another folder where the workspace is; its key is the testbed's.
HOST = """
set -e
mkdir -p /var/lib/testbed/other-disk /home/modak/modak
chown 2000:2000 /var/lib/testbed/other-disk /home/modak/modak
sed -e 's/^ListenAddress .*/ListenAddress 0.0.0.0:2299/' -e '/^PidFile/d' /etc/ssh/sshd_config > /run/testbed/host2.config
echo 'PidFile none' >> /run/testbed/host2.config
nsenter --target "$(cat /run/testbed/slurmd-node02.pid)" --net --mount --uts unshare --mount bash -c '
    mount --bind /var/lib/testbed/other-disk /home/modak/modak
    hostname > /var/lib/testbed/other-disk/.of
    exec setsid /usr/sbin/sshd -D -e -f /run/testbed/host2.config' >> /var/log/sshd.log 2>&1 < /dev/null &
"""
# As a user would: a key of one's own, and the host known under the name that it is called by.
ENTERS = """
set -e
mkdir -p -m 700 ~/.ssh
[ -e ~/.ssh/id_hosts ] || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_hosts
cat ~/.ssh/id_hosts.pub >> ~/.ssh/authorized_keys
printf 'Host host2\\n  HostName node02\\n  Port 2299\\n  IdentityFile ~/.ssh/id_hosts\\n  UserKnownHostsFile ~/.ssh/known_of_hosts\\n' > ~/.ssh/config
for try in $(seq 50); do ssh-keyscan -T 2 -p 2299 node02 2> /dev/null > ~/.ssh/known_of_hosts; [ -s ~/.ssh/known_of_hosts ] && break; sleep 0.2; done
ssh -o BatchMode=yes host2 hostname
"""
TRAINS = """\
import json, os, time
import torch
from modak_runtime import prepare

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
samples = int(open(os.path.join(os.environ["MODAK_DATASET"], "samples.txt")).read())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(samples, 4)), batch_size=16)
model, optimizer, loader = prepare(model, optimizer, loader)
for step, (batch,) in enumerate(loader):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    if step == 3:
        print("step 3 on", os.uname().nodename, "with", len(batch), "through", os.environ["GLOO_SOCKET_IFNAME"], flush=True)
    MORE
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"weight": model.weight.detach().flatten().tolist()}, file)
"""
SLOWLY = "time.sleep(0.2)"


@pytest.fixture(scope="module")
def hosts(linked: Testbed, tmp_path_factory) -> Iterator[Testbed]:
    provide_images(linked, tmp_path_factory.mktemp("hosts-images") / "project")
    linked.root(HOST)
    assert linked.ssh(ENTERS) == "node02"
    yield linked
    linked.root("pkill -f '[h]ost2.config' || true")


@pytest.fixture
def training(tmp_path, hosts) -> Iterator[Project]:
    made = Project(tmp_path / "project", hosts)
    made.target.update(type="modak.nodes.Host", properties={"hosts": ["host2"]}, capabilities={})
    made.training.update(resources={"nodes": 2, "processes_per_node": 2}, distributed={"timeout": 40})
    yield made
    made.clear()


def script(project: Project, samples: int, more: str = "") -> Project:
    (project.path / "data").mkdir(exist_ok=True)
    (project.path / "data" / "samples.txt").write_text(str(samples))
    project.dataset = {"name": "counted", "source": ["data"]}
    return project.script(TRAINS.replace("MORE", more))


def started(project: Project):
    command = project.start()
    wait_for(lambda: "step 3 on node02" in project.testbed.ssh(f"cat {project.remote}/ranks/3/output.log || true"), 300)
    return command


def left(project: Project) -> dict[str, str]:
    """What of a deployment's is anywhere: processes, by what is in their environment, and its folder on the other host."""
    search = f'for p in /proc/[0-9]*; do tr "\\\\0" "\\\\n" < $p/environ 2> /dev/null | grep -q "/{project.deployment}/" && echo ${{p#/proc/}}; done; true'
    folder = f"/var/lib/testbed/other-disk/deployments/{project.deployment}"
    return {
        "processes": project.testbed.root(search),
        "folder": project.testbed.root(f"ls -d {folder} 2> /dev/null || true"),
    }


NOTHING = {"processes": "", "folder": ""}


def test_four_ranks_on_two_hosts_train_one_model_on_data_that_both_have(training):
    script(training, 256)
    done = training.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    shown = modak("logs", training.deployment, cwd=training.path).stdout.splitlines()
    assert any(re.fullmatch(r"0: step 3 on frontend with 4 through \S+", line) for line in shown), shown
    assert {"2: step 3 on node02 with 4 through eth0", "3: step 3 on node02 with 4 through eth0"} <= set(shown)
    results = training.folder / "results"
    weights = [
        json.loads((results / each / "metrics.json").read_text())["weight"] for each in (".", "ranks/1", "ranks/3")
    ]
    assert weights[0] == weights[1] == weights[2]
    there = training.testbed.root(
        "cat /var/lib/testbed/other-disk/.of; ls /var/lib/testbed/other-disk/images /var/lib/testbed/other-disk/datasets"
    )
    assert there.startswith("node02")
    assert ".sif" in there, "it was brought"
    assert left(training) == NOTHING
    again = training.deploy()
    assert again.returncode == 0
    assert "Nothing had to be" in again.stdout + again.stderr


def test_a_rank_that_is_killed_elsewhere_ends_all_and_is_named(training):
    command = started(script(training, 100000, SLOWLY))
    search = 'for p in /proc/[0-9]*; do tr "\\\\0" "\\\\n" < $p/environ 2> /dev/null | grep -qx RANK=3 && grep -q python $p/comm && echo ${p#/proc/}; done; true'
    training.testbed.root(f"kill -KILL $({search})")
    said, _ = command.communicate(timeout=200)
    assert command.returncode == 5, said
    assert "rank 3 on host2 failed first, with exit code 137" in said
    wait_for(lambda: left(training) == NOTHING, 60)


def test_a_look_at_the_target_sees_each_host_and_names_the_one_with_the_fault(training):
    def checked(*names):
        training.target["properties"]["hosts"] = [*names]
        done = modak("check", training.write(), "--json", cwd=training.path)
        found = {
            each["about"]: each for each in json.loads(done.stdout)["findings"] if each["about"].startswith("host ")
        }
        return done.returncode, found

    code, found = checked("host2")
    assert (code, found["host host2"]["state"]) == (0, "ok")
    assert re.fullmatch(r"modak@node02:2299 is entered from frontend; .* free", found["host host2"]["seen"])
    code, found = checked("node02", "nowhere")  # of the first no key is known under that name
    assert code == 1
    assert "modak@node02:22 cannot be entered from frontend: ssh: " in found["host node02"]["seen"]
    assert "Could not resolve hostname" in found["host nowhere"]["seen"]
    assert "Host entry in ~/.ssh/config on frontend" in found["host nowhere"]["todo"]


def test_a_running_job_is_seen_and_entered_on_each_host(training):
    command = started(script(training, 100000, SLOWLY))
    shown = modak("status", training.path, cwd=training.path)
    assert "frontend,host2" in shown.stdout + shown.stderr
    shown = modak("top", training.path, "--once", "--json", cwd=training.path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    first, other = json.loads(shown.stdout)["nodes"]
    assert [(each["node"], [row["rank"] for row in each["ranks"]]) for each in (first, other)] == [
        ("frontend", [0, 1]), ("host2", [2, 3])
    ]  # fmt: skip
    assert all(row["memory_bytes"] > 50e6 for each in (first, other) for row in each["ranks"])
    assert sum(row["cpu_percent"] for row in other["ranks"]) > 0
    said = ("sh", "-c", "echo rank $RANK on $(uname -n) in $APPTAINER_CONTAINER; exit 7")
    for rank, node in (((), "frontend"), (("--rank", "1"), "frontend"), (("--rank", "3"), "node02")):
        inside = modak("shell", training.path, *rank, "--", *said, cwd=training.path)
        assert inside.returncode == 7, inside.stdout + inside.stderr
        assert re.fullmatch(rf"rank {rank[-1] if rank else 0} on {node} in /.*\.sif\n", inside.stdout)
    refused = modak("shell", training.path, "--rank", "4", cwd=training.path)
    assert "has no rank 4" in refused.stderr
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 cut")
    try:
        shown = modak("top", training.path, "--once", cwd=training.path)
    finally:
        training.testbed.root("bash /usr/local/libexec/testbed/link node02 join")
    assert re.search(r"note: host2: ssh: .*(timed out|did not answer|No route)", shown.stdout), (
        shown.stdout + shown.stderr
    )
    assert modak("cancel", training.path, cwd=training.path).returncode == 0
    command.communicate(timeout=200)
    wait_for(lambda: left(training) == NOTHING, 90)


def test_what_nobody_needs_goes_from_each_host(training):
    workspace = training.target["properties"]["workspace"] = "modak/gc"  # which is on host2's own disk, too
    training.testbed.ssh(f"mkdir -p -m 700 {workspace}/images")
    for layer in script(training, 256).plan()["image"]["layers"]:
        training.testbed.ssh(f"cp -l modak/{layer['path'].replace('.sif', '.')}* {workspace}/images/")
    done = training.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    disk = "/var/lib/testbed/other-disk/gc"
    lost = f"{disk}/deployments/lost-0123456789ab"
    training.testbed.root(f"mkdir -p {lost}/state && touch {lost}/state/brought && chown -R 2000:2000 {lost}")
    training.testbed.root(f"find {lost} | xargs touch -d '30 days ago'")

    def gc(*options):
        done = modak("gc", *options, "--json", cwd=training.path)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["targets"][0]

    shown = gc("--dry-run", "--older-than", "0s")
    there = [each for each in shown["garbage"] if each["path"].startswith("host2:")]
    assert [(each["kind"], each["name"]) for each in there] == [("deployment", "lost-0123456789ab on host2")]
    kept = {each["kind"]: each["keep"] for each in shown["kept"] if each["path"].startswith("host2:")}
    assert kept == dict.fromkeys(("image", "dataset"), f"used by {training.deployment}")
    assert training.undeploy().returncode == 0
    removed = gc("--yes", "--older-than", "0s")["removed"]
    assert {each["kind"] for each in removed if each["path"].startswith("host2:")} == {"image", "dataset", "deployment"}
    assert training.testbed.root(f"cd {disk} && find . -type f ! -name '.*'; ls images datasets deployments").split() == [
        "datasets:", "deployments:", "images:"
    ]  # fmt: skip
    training.testbed.root(f"rm -rf {disk} && rm -rf /home/modak/{workspace}")


def test_undeploy_ends_every_process_on_every_host(training):
    command = started(script(training, 100000, SLOWLY))
    command.send_signal(2)
    said, _ = command.communicate(timeout=100)
    assert command.returncode == 130, said
    assert left(training)["processes"], "the job goes on"
    assert training.undeploy().returncode == 0
    wait_for(lambda: not left(training)["processes"], 90)


def test_cancel_ends_every_process_on_every_host(training):
    command = started(script(training, 100000, SLOWLY))
    assert modak("cancel", training.deployment, cwd=training.path).returncode == 0
    said, _ = command.communicate(timeout=200)
    assert command.returncode == 5, said
    wait_for(lambda: left(training) == NOTHING, 90)


def test_a_host_that_is_cut_off_is_given_up_there_and_here(training):
    command = started(script(training, 100000, SLOWLY))
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 cut")
    began = time.monotonic()
    try:
        said, _ = command.communicate(timeout=300)
        wait_for(lambda: not left(training)["processes"], 180)
    finally:
        training.testbed.root("bash /usr/local/libexec/testbed/link node02 join")
    assert command.returncode == 5, said
    assert time.monotonic() - began < 240
    assert re.search(r"rank [23] on \S+ (was no longer heard from|failed first)", said), said


def test_a_link_that_is_cut_for_thirty_seconds_costs_time_alone(training):
    command = started(script(training, 4000, SLOWLY))
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 cut")
    time.sleep(30)
    training.testbed.root("bash /usr/local/libexec/testbed/link node02 join")
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said


def test_a_host_that_cannot_be_entered_is_named_with_its_address(training):
    training.target["properties"]["hosts"] = ["node02"]  # its key is not known under that name
    script(training, 256)
    done = training.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert re.search(r"the host node02 \(modak@node02:\d+\) cannot be entered from frontend", done.stdout + done.stderr)
    assert left(training) == NOTHING
