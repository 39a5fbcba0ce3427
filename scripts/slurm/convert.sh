#!/usr/bin/env bash
# Make one part of a pack, as one task of a job array.
#
#     sbatch --array=0-15 --cpus-per-task=4 convert.sh 16 SOURCE OUT [options of packer convert]
#
# PARTS (16) is an argument, so that --array may name some of the tasks 0-15: SLURM_ARRAY_TASK_COUNT
# counts the tasks of this submission; it would be 1 in a rerun with --array=2.
#SBATCH --job-name=packer-convert
#SBATCH --output=packer-convert-%A_%a.log
# SLURM starts the task again after a lost node or preemption; finished shards are kept, and the
# log is appended to.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

usage='usage: sbatch --array=0-(PARTS-1) convert.sh PARTS SOURCE OUT [options of packer convert]'
parts=${1:?$usage} source=${2:?$usage} out=${3:?$usage}
shift 3
part=${SLURM_ARRAY_TASK_ID:?$usage}

# `module load`, `conda activate`: see submit. Such code fails with -u.
if [[ -n ${PACKER_SETUP:-} ]]; then
    set +u
    # shellcheck source=/dev/null
    source "$PACKER_SETUP" || { echo "convert: $PACKER_SETUP failed" >&2 && exit 1; }
    set -euo pipefail
fi

# The default, all cores of the machine, would be more than the CPUs of this task.
export PACKER_JOBS=${PACKER_JOBS:-${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}}

# exec: this process becomes packer, so SLURM's SIGTERM (scancel, time limit, preemption; SIGKILL
# follows after KillWait, 30 s) reaches it at once, and its exit code is the task's.
exec "${PACKER_PYTHON:-python3}" -m packer convert "$source" --out "$out" \
    --part "$part/$parts" --progress "${PACKER_PROGRESS:-log}" "$@"
