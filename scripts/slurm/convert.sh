#!/usr/bin/env bash
# One task of a job array makes one part of a pack:
#
#     sbatch --array=0-15 scripts/slurm/convert.sh 16 SOURCE OUT [options of packer convert]
#
# PARTS (16) is said by hand, and --array may be any part of 0-15: SLURM_ARRAY_TASK_COUNT counts the
# tasks of this submission, so in a rerun of --array=2 it would be 1, and the part another one.
#SBATCH --job-name=packer-convert
#SBATCH --output=packer-convert-%A_%a.log
#SBATCH --cpus-per-task=4
# Started again by SLURM after a lost node or preemption: shards that are done stay done, and the
# log goes on where it was.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

usage='usage: sbatch --array=0-(PARTS-1) convert.sh PARTS SOURCE OUT [options of packer convert]'
parts=${1:?$usage} source=${2:?$usage} out=${3:?$usage}
shift 3
part=${SLURM_ARRAY_TASK_ID:?$usage}

# The default, all cores of the machine, would be more than this task was given.
export PACKER_JOBS=${PACKER_JOBS:-${SLURM_CPUS_PER_TASK:-1}}

# exec: this process becomes packer, so SLURM's SIGTERM (scancel, time limit, preemption; SIGKILL
# follows after KillWait, 30 s) reaches it at once, and its exit code is the task's.
exec "${PACKER_PYTHON:-python3}" -m packer convert "$source" --out "$out" \
    --part "$part/$parts" --progress "${PACKER_PROGRESS:-log}" "$@"
