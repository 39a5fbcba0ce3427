"""What a batch system calls this run: told to others who want the same output folder."""

from __future__ import annotations

from collections.abc import Mapping


def batch_job(environ: Mapping[str, str]) -> str:
    """ "SLURM job 4711_3" for task 3 of an array, "SLURM job 4711", or "" outside of SLURM."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"SLURM job {array}_{task}"
    job = environ.get("SLURM_JOB_ID")
    return f"SLURM job {job}" if job else ""
