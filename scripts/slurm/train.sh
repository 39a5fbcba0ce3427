#!/usr/bin/env bash
# Trains on all nodes of the job, from a copy of the pack on each node:
#
#     sbatch --nodes=2 --gres=gpu:4 scripts/slurm/train.sh SCRIPTS PACK [arguments of train_ddp.py]
#
# SCRIPTS is this checkout's scripts folder, as SLURM runs a copy of this file that lies elsewhere.
#SBATCH --job-name=packer-train
#SBATCH --output=packer-train-%j.log
# One task a node: torchrun starts the ranks of a node.
#SBATCH --ntasks-per-node=1
# Started again, training goes on from its checkpoint.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

usage='usage: sbatch train.sh SCRIPTS PACK [arguments of train_ddp.py]'
scripts=${1:?$usage} pack=${2:?$usage}
shift 2

nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:?$usage}")
# Ranks meet on the first node; the port is the job's own, as jobs of others may be there too.
export MASTER_ADDR=${nodes%%$'\n'*} MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

# srun does not take this over from sbatch by itself (since SLURM 22.05).
if [[ -n ${SLURM_CPUS_PER_TASK:-} ]]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi
# srun hands SIGTERM on to the nodes, and --kill-on-bad-exit ends them all when one fails: the
# others would wait for it in a collective operation until the job's time is over.
exec srun --kill-on-bad-exit=1 bash "$scripts/slurm/train_node.sh" "$scripts" "$pack" "$@"
