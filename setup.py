"""The packages of a wheel and its readme; `pyproject.toml` says the rest."""

from pathlib import Path

from setuptools import find_packages, setup

_, _, readme = Path("README.md").read_text(encoding="utf-8").split("---\n", 2)  # without the settings of a Space

setup(
    # A package outside the package's folder cannot be declared together with a search for packages in pyproject.toml.
    packages=[*find_packages(include=["bias_core*"]), "bias_core.assets"],
    package_dir={"bias_core.assets": "assets"},
    long_description=readme.strip(),
    long_description_content_type="text/markdown",
)
