import pytest

from packer.cli._job import batch_job


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "12"}, "SLURM job 12"),
        (
            {"SLURM_JOB_ID": "15", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"},
            "SLURM job 12_3",
        ),
    ],
)
def test_names_of_jobs(environ: dict[str, str], text: str) -> None:
    assert batch_job(environ) == text
