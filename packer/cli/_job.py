"""Name of this run in a batch system; messages to other runs with the same output name it."""

from __future__ import annotations

from collections.abc import Mapping


def batch_job(environ: Mapping[str, str]) -> str:
    """Return "SLURM job 4711_3" (task 3 of an array), "SLURM job 4711", or "" outside of SLURM."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"SLURM job {array}_{task}"
    job = environ.get("SLURM_JOB_ID")
    return f"SLURM job {job}" if job else ""
