"""Optional parts: what each extra of the installation is for, and the error where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barymesh.errors import MissingPackageError

# what needs the packages of an extra
EXTRAS = {
    "plots": "figures and animations",
    "images": "picture files",
    "parquet": "Parquet files",
    "dataframes": "data frames of pandas, Polars and Arrow",
    "mnist": "images of handwritten digits",
    "peers": "networks of processes (engine='processes') and of organisations ('barymesh node')",
    "ray": "networks on a Ray cluster (engine='ray')",
    "privacy": "differentially private releases",
    "dashboard": "pages that show runs in a browser",
    "report": "reports of 'barymesh paper'",
    "sklearn": "estimators for scikit-learn",
    "tensorboard": "logs for TensorBoard",
    "mlflow": "logs for MLflow",
    "flower": "barycenters with Flower",
    "nvflare": "barycenters with NVIDIA FLARE",
}


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import the packages of an extra in this block; if one is missing, the error says how to install it. Where one
    block is inside another, the outer one counts."""
    try:
        yield
    except ImportError as error:
        cause = error.__cause__ if isinstance(error, MissingPackageError) else error
        purpose = EXTRAS[extra]
        raise MissingPackageError(
            f"{purpose[0].upper()}{purpose[1:]} need packages that are missing or too old ({cause}). Install them "
            f"with: pip install 'barymesh[{extra}]'."
        ) from cause
