#!/bin/bash
#SBATCH --job-name=example
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=0-01:30:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

# Points of a sweep, written by modak: a task's number is a link to the folder of its point, whose job it is.
cd -P "$SLURM_SUBMIT_DIR/$SLURM_ARRAY_TASK_ID" || exit 1
export SLURM_SUBMIT_DIR=$PWD
exec bash job.sh "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
