#!/usr/bin/env bash
# Stage the pack on a node and start one rank per GPU; train.sh runs this on each node.
set -euo pipefail

usage='usage: train_node.sh SCRIPTS PACK [arguments of train_ddp.py]; see train.sh'
scripts=${1:?$usage} pack=${2:?$usage}
shift 2

# `module load`, `conda activate`: see submit. Such code fails with -u.
if [[ -n ${PACKER_SETUP:-} ]]; then
    set +u
    # shellcheck source=/dev/null
    source "$PACKER_SETUP" || { echo "train_node: $PACKER_SETUP failed" >&2 && exit 1; }
    set -euo pipefail
fi

python=${PACKER_PYTHON:-python3}

# A copy that is already on the node is used again. Files in /dev/shm count as memory of the job;
# a local disk works too: PACKER_STAGE=/scratch.
staged=$("$python" -m packer stage "$pack" "${PACKER_STAGE:-/dev/shm}" --progress log)

exec "$python" -m torch.distributed.run \
    --nnodes "${SLURM_NNODES:-1}" --nproc-per-node "${PACKER_RANKS:-${SLURM_GPUS_ON_NODE:-1}}" \
    --rdzv-id "${SLURM_JOB_ID:-0}" --rdzv-backend c10d \
    --rdzv-endpoint "${MASTER_ADDR:-localhost}:${MASTER_PORT:-29400}" \
    "$scripts/examples/train_ddp.py" "$staged" "$@"
