#!/usr/bin/env bash
# Join the parts of a pack and verify it, or print the command that makes the missing parts.
#
#     sbatch --dependency=afterany:ARRAY_JOB merge.sh OUT [RERUN]
#
# afterany, not afterok: after a failed part, SLURM would keep an afterok job pending forever, and
# this job finds missing parts itself. RERUN is the command to print if parts are missing; their
# numbers replace the word LIST in its --array=LIST.
#SBATCH --job-name=packer-merge
#SBATCH --output=packer-merge-%j.log
set -euo pipefail

usage='usage: merge.sh OUT [RERUN]'
out=${1:?$usage}
rerun=${2:-sbatch --array=LIST convert.sh …}
# `module load`, `conda activate`: see submit. Such code fails with -u.
if [[ -n ${PACKER_SETUP:-} ]]; then
    set +u
    # shellcheck source=/dev/null
    source "$PACKER_SETUP" || { echo "merge: $PACKER_SETUP failed" >&2 && exit 1; }
    set -euo pipefail
fi

python=${PACKER_PYTHON:-python3}
# The Python code below must not import modules from the working directory.
export PYTHONSAFEPATH=1

code=0
found=$("$python" -m packer merge --json "$out") || code=$?
if ((code == 0)); then
    # Complete parts can still be damaged: compare every checksum once.
    exec "$python" -m packer verify "$out"
fi
array=
if [[ -n $found ]]; then # parts are missing; after other errors stdout is empty
    array=$("$python" -c 'import json, sys; print(json.loads(sys.argv[1])["array"])' "$found")
fi
if [[ -n $array ]]; then
    rerun=${rerun/--array=LIST/--array=$array}
    echo "merge: parts are missing; to make and join them, run: $rerun" >&2
fi
exit "$code"
