"""probing in a notebook: a real Jupyter kernel runs the cells (nbclient), what it shows is looked at."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target

StartTarget = Callable[..., Target]

CLIENTS = harness.ROOT / "build/clients-venv/bin/python"  # has ipykernel and nbclient
RUNNER = """
import json, sys
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

cells = json.load(sys.stdin)
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, timeout=50, allow_errors=True).execute()
shown = []
for cell in notebook.cells:
    shown.append({"text": "", "html": "", "error": ""})
    for output in cell.outputs:
        if output.output_type == "error":
            shown[-1]["error"] += output.ename + ": " + output.evalue
        data = output.get("data", {})
        shown[-1]["text"] += output.get("text", "") + data.get("text/plain", "")
        shown[-1]["html"] += data.get("text/html", "")
print(json.dumps(shown))
"""


class Notebook:
    """Runs cells in one kernel, each with what it has shown: text, html, error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *cells: str) -> list[dict[str, str]]:
        environment = harness.clean_environment(
            PROBING_LIBRARY=str(harness.BIN / "libprobing.so"),
            PYTHONPATH=str(harness.ROOT / "python"),
            HOME=str(self.folder),
            JUPYTER_PLATFORM_DIRS="1",
        )
        done = subprocess.run(
            [CLIENTS, "-W", "ignore", "-c", RUNNER],
            input=json.dumps([textwrap.dedent(cell).strip() for cell in cells]),
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        shown: list[dict[str, str]] = json.loads(done.stdout)
        return shown


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    has_kernel = [CLIENTS, "-c", "import ipykernel, nbclient"]
    if not CLIENTS.exists() or subprocess.run(has_kernel, capture_output=True).returncode != 0:
        pytest.skip("needs ipykernel and nbclient in build/clients-venv (tools/install_deps.sh clients)")
    return Notebook(tmp_path)


def test_a_notebook_asks_about_a_process_and_loads_nothing(
    probing: Cli, target: StartTarget, notebook: Notebook
) -> None:
    job = target("shares")
    probing("status").expect(0)
    cells = [
        f"import probing, os; process = probing.connect({job.pid}); process",
        "process.query('SELECT thread_name, func FROM python.stacks WHERE depth = 0')",
        "[type(process.query('SELECT 1', format=f)).__module__.split('.')[0]"
        " for f in ('rows', 'pandas', 'polars', 'arrow')]",
        "import pandas; type(process.query('SELECT 1')).__name__",
        "process.backtrace()",
        "process.flamegraph(seconds=1)",
        "process.tables()",
        "probing.connect(999999999)",
        "'libprobing' in open('/proc/self/maps').read()",
    ]
    named, rows, kinds, one, stacks, flame, tables, missing, loaded = notebook.run(*cells)
    assert named["text"] == f"<connection to {job.pid}>"
    assert "<th>thread_name</th>" in rows["html"], rows
    assert re.search(
        "<td>(hot|warm|cold|main|<module>)", rows["html"].replace("&lt;", "<").replace("&gt;", ">")
    ), rows
    assert kinds["text"] == "['probing', 'pandas', 'polars', 'pyarrow']"
    assert one["text"] == "'Rows'"  # whatever is imported
    assert "target_shares.py:" in stacks["html"]
    assert stacks["html"].startswith("<pre>")
    assert "<iframe" in flame["html"]
    assert "srcdoc=" in flame["html"]
    assert "hot" in flame["html"]
    assert "python.torch_steps" in tables["html"]
    assert missing["error"].startswith("QueryError: there is no process 999999999")
    assert loaded["text"] == "False"


def test_sql_in_cells(probing: Cli, target: StartTarget, notebook: Notebook) -> None:
    job = target("shares")
    probing("status").expect(0)
    loaded, chosen, line, cell, kept, wrong, usage = notebook.run(
        "%load_ext probing",
        f"%probing -t {job.pid}",
        "%probing SELECT pid FROM system.process",
        """
        %%probing -o answer
        SELECT pid,
               name
        FROM system.process;
        """,
        "answer.columns, answer[0][0]",
        "%probing SELECT nosuch FROM system.process",
        "%probing -x",
    )
    assert (loaded["error"], chosen["error"]) == ("", "")
    assert f'<td style="text-align:right">{job.pid}</td>' in line["html"]
    assert "<th>name</th>" in cell["html"]
    assert kept["text"] == f"(['pid', 'name'], {job.pid})"
    assert wrong["error"].startswith("QueryError: ")
    assert "nosuch" in wrong["error"]
    assert usage["error"].startswith("ValueError: usage: %probing")


def test_what_a_notebook_records_loads_the_probe(probing: Cli, notebook: Notebook) -> None:
    before, logged, asked = notebook.run(
        "import probing; probing.is_active()",
        "probing.log(step=1, loss=0.5)",
        "probing.query('SELECT step, loss FROM training_logs')",
    )
    assert before["text"] == "False"
    assert logged["text"] == "True"
    assert "0.5" in asked["html"], asked


def test_steps_are_a_chart(notebook: Notebook) -> None:
    code = """
    from probing import _rows, _views
    names = ["step", "duration", "data_wait", "forward", "backward", "optimizer"]
    rows = _rows.Rows([{"name": name, "type": "DOUBLE"} for name in names], %s)
    _views.StepChart(rows)
    """
    some, none = notebook.run(
        code % [[1, 0.1, 0.02, 0.03, 0.04, 0.005], [2, 0.4, 0.3, 0.03, 0.04, 0.005]], code % []
    )
    assert some["html"].count("<g>") == 2
    assert "step 2: 400.0 ms (data_wait 300.0 ms" in some["html"]
    assert "steps 1 to 2" in some["html"]
    assert "probing.torch.profiling=on" in none["html"]
