#!/usr/bin/env bash
# One task of a job array makes one part of a pack:
#
#     sbatch --array=0-15 --cpus-per-task=4 scripts/slurm/convert.sh 16 SOURCE OUT [options]
#
# PARTS (16) is said by hand, and --array may be any part of 0-15: SLURM_ARRAY_TASK_COUNT counts the
# tasks of this submission, so in a rerun of --array=2 it would be 1, and the part another one.
# The options are those of packer convert.
#SBATCH --job-name=packer-convert
#SBATCH --output=packer-convert-%A_%a.log
# Started again by SLURM after a lost node or preemption: shards that are done stay done, and the
# log goes on where it was.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

usage='usage: sbatch --array=0-(PARTS-1) convert.sh PARTS SOURCE OUT [options of packer convert]'
parts=${1:?$usage} source=${2:?$usage} out=${3:?$usage}
shift 3
part=${SLURM_ARRAY_TASK_ID:?$usage}

# `module load`, `conda activate`: see submit. Such code does not expect -u.
if [[ -n ${PACKER_SETUP:-} ]]; then
    set +u
    # shellcheck source=/dev/null
    source "$PACKER_SETUP" || { echo "convert: $PACKER_SETUP failed" >&2 && exit 1; }
    set -euo pipefail
fi

# The default, all cores of the machine, would be more than this task was given.
export PACKER_JOBS=${PACKER_JOBS:-${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}}

# exec: this process becomes packer, so SLURM's SIGTERM (scancel, time limit, preemption; SIGKILL
# follows after KillWait, 30 s) reaches it at once, and its exit code is the task's.
exec "${PACKER_PYTHON:-python3}" -m packer convert "$source" --out "$out" \
    --part "$part/$parts" --progress "${PACKER_PROGRESS:-log}" "$@"
