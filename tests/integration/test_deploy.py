"""The recipes of deploy/: they parse, and what they name exists."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable

import harness
import pytest
import yaml
from harness import Cli, Target, from_daemon, wait_until

DEPLOY = harness.ROOT / "deploy"
METRIC = re.compile(r"\bprobing_[a-z_]+\b")


def test_a_prometheus_would_take_its_configuration() -> None:
    subprocess.run(["promtool", "check", "config", "--syntax-only", DEPLOY / "prometheus.yml"], check=True)
    (scrape,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["scheme"] == "https"  # all that probingd speaks beyond its machine


def metrics() -> str:
    return from_daemon("GET", "/metrics")


def test_every_metric_of_the_dashboard_is_served(probing: Cli, target: Callable[..., Target]) -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    expressions = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    expressions += [each.get("query", "") for each in dashboard["templating"]["list"]]
    named = {name for text in expressions for name in METRIC.findall(text)}
    assert len(named) > 10
    source = (harness.ROOT / "src/daemon/metrics.cc").read_text()
    assert named <= set(METRIC.findall(source))
    # What a process without training has is there in fact.
    one = target("plain")
    probing("-t", one.pid, "inject").expect(0)
    wait_until(lambda: "probing_process_threads{" in metrics(), 20, "the target is counted")
    in_training_only = {name for name in named if name.startswith("probing_train_")}
    assert named - in_training_only <= set(METRIC.findall(metrics()))


@pytest.mark.parametrize("name", ["kubernetes/ephemeral.sh", "slurm/train.sbatch"])
def test_scripts_are_shell_and_name_settings_that_exist(name: str) -> None:
    path = DEPLOY / name
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


def settings() -> set[str]:
    text = (harness.ROOT / "src/wire/settings.cc").read_text()
    names = set(re.findall(r'Setting\{\s*"(probing\.[a-z_.]+)"', text))
    assert "probing.store" in names
    return {name.upper().replace(".", "_") for name in names}


def test_variables_and_settings_of_the_recipes_exist() -> None:
    known = settings() | {"PROBING", "PROBING_JOB", "PROBING_IMAGE"}
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            named = set(re.findall(r"\bPROBING(?:_[A-Z_]+)?\b", path.read_text()))
            assert named <= known, (path, named - known)
            for setting in re.findall(r"\bprobing\.[a-z_.]*[a-z]", path.read_text()):
                if not setting.startswith(("probing.table", "probing.enable", "probing.token")):
                    assert setting.upper().replace(".", "_") in known, (path, setting)


def test_the_sidecar_sees_the_job_and_may_look_into_it() -> None:
    (pod,) = yaml.safe_load_all((DEPLOY / "kubernetes/sidecar.yaml").read_text())
    assert pod["spec"]["shareProcessNamespace"] is True
    job, sidecar = pod["spec"]["containers"]
    assert job["securityContext"]["runAsUser"] == sidecar["securityContext"]["runAsUser"]
    assert sidecar["securityContext"]["capabilities"]["add"] == ["SYS_PTRACE"]
    subprocess.run(["bash", "-n"], input=sidecar["args"][0].encode(), check=True)
    values = {each["name"]: each.get("value") for each in sidecar["env"]}
    mounted = {each["mountPath"] for each in sidecar["volumeMounts"]}
    assert values["PROBING_DATA_DIR"] in mounted


def test_the_recipe_for_ray_is_python() -> None:
    tree = ast.parse((DEPLOY / "ray/train.py").read_text())
    assert {each.name for each in tree.body if isinstance(each, ast.FunctionDef)} == {
        "start_probing",
        "train",
    }
