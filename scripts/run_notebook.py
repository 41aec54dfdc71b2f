"""Run the cells of ``docs/first_steps.ipynb`` and store their outputs in it: ``python scripts/run_notebook.py``.

The cells run in one namespace, in an empty folder, without Jupyter, as in ``tests/test_release.py``.
"""

import base64
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "first_steps.ipynb"
_DOTS_PER_INCH = 90  # keeps the file small


def run_cells(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Run each cell of code; yield the cell and its new outputs. A cell that fails raises its own error."""
    import matplotlib as mpl

    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
            yield cell, [*_text(printed.getvalue()), *_figures()]


def _text(printed: str) -> Iterator[dict[str, Any]]:
    if printed:
        yield {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}


def _figures() -> Iterator[dict[str, Any]]:
    """Return the open figures as outputs, and close them."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, dpi=_DOTS_PER_INCH, metadata={"Software": None})
        data = {"image/png": base64.b64encode(_few_colours(picture)).decode(), "text/plain": ["<Figure>"]}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    plt.close("all")


def _few_colours(picture: io.BytesIO) -> bytes:
    from PIL import Image

    small = io.BytesIO()
    Image.open(picture).convert("RGB").quantize(128).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    """Run the notebook in a temporary folder and write its file."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder, chdir(folder):
        os.environ["BIAS_DATA_DIR"] = str(Path(folder) / "data")
        for number, (cell, outputs) in enumerate(run_cells(notebook), start=1):
            cell.update(execution_count=number, outputs=outputs)
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{NOTEBOOK.name}: {NOTEBOOK.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
