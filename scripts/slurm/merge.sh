#!/usr/bin/env bash
# Joins the parts of a pack and checks it, or says which parts to run again:
#
#     sbatch --dependency=afterany:ARRAY_JOB scripts/slurm/merge.sh OUT [RERUN]
#
# afterany, not afterok: after a failed part, SLURM would keep an afterok job pending for ever, and
# whether all parts are there is seen here anyway. RERUN is the command that is printed, with
# their numbers in place of --array=LIST, if parts are missing.
#SBATCH --job-name=packer-merge
#SBATCH --output=packer-merge-%j.log
set -euo pipefail

usage='usage: merge.sh OUT [RERUN]'
out=${1:?$usage}
rerun=${2:-sbatch --array=LIST scripts/slurm/convert.sh …}
# `module load`, `conda activate`: see submit. Such code does not expect -u.
if [[ -n ${PACKER_SETUP:-} ]]; then
    set +u
    # shellcheck source=/dev/null
    source "$PACKER_SETUP" || { echo "merge: $PACKER_SETUP failed" >&2 && exit 1; }
    set -euo pipefail
fi

python=${PACKER_PYTHON:-python3}
# For the lines of Python below, which must not look for modules in the working directory.
export PYTHONSAFEPATH=1

code=0
found=$("$python" -m packer merge --json "$out") || code=$?
if ((code == 0)); then
    # Parts that are all there can be damaged nevertheless: every checksum is compared, once.
    exec "$python" -m packer verify "$out"
fi
array=
if [[ -n $found ]]; then # merge found parts missing, and says which; other errors leave it empty
    array=$("$python" -c 'import json, sys; print(json.loads(sys.argv[1])["array"])' "$found")
fi
if [[ -n $array ]]; then
    rerun=${rerun/--array=LIST/--array=$array}
    echo "merge: parts are missing; run this, and they are joined: $rerun" >&2
fi
exit "$code"
