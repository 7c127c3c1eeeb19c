"""The barycenter of samples that stay where they are, with NVIDIA FLARE: a job for its simulator, or for a server."""

import sys
from pathlib import Path

from barymesh.integrations.nvflare import barycenter_job

job = barycenter_job(
    "barycenter", "sites:load", Path(__file__).with_name("sites.py"), support="60:-4:4", reg=0.1, sites=3,
    weights="size",
)  # fmt: skip

if __name__ == "__main__":
    job.export_job(sys.argv[1])
