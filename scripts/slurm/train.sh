#!/usr/bin/env bash
# Train on all nodes of the job, from a copy of the pack on each node.
#
#     sbatch --nodes=2 --gres=gpu:4 slurm/train.sh SCRIPTS PACK [arguments of train_ddp.py]
#
# SCRIPTS is the absolute path of the folder that holds slurm/ and examples/: SLURM runs a copy of
# this file, which lies elsewhere.
#SBATCH --job-name=packer-train
#SBATCH --output=packer-train-%j.log
# One task per node: torchrun starts the ranks of a node.
#SBATCH --ntasks-per-node=1
# When SLURM starts the job again, training resumes from its checkpoint.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

usage='usage: sbatch train.sh SCRIPTS PACK [arguments of train_ddp.py]'
scripts=${1:?$usage} pack=${2:?$usage}
shift 2

nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:?$usage}")
# The ranks meet on the first node. Other jobs may run there too, so the port depends on the job.
export MASTER_ADDR=${nodes%%$'\n'*} MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

# Since SLURM 22.05 srun does not inherit this from sbatch.
if [[ -n ${SLURM_CPUS_PER_TASK:-} ]]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi
# srun passes SIGTERM on to the nodes, and --kill-on-bad-exit ends all of them when one fails:
# the others would wait for it in a collective operation until the time limit of the job.
exec srun --kill-on-bad-exit=1 bash "$scripts/slurm/train_node.sh" "$scripts" "$pack" "$@"
