#!/bin/sh
# Submit one job and print its id: submit.sh NAME THREADS MEMORY_MB MINUTES GPUS SCRIPT
# A partition and an account go here (--partition=gpu --account=mine), or in SBATCH_PARTITION and SBATCH_ACCOUNT.
# As their manuals have it for other schedulers (not tried):
#   PBS:  qsub -N "$1" -l "select=1:ncpus=$2:mem=$3mb:ngpus=$5,walltime=$(($4 * 60))" -j oe -o results/logs/cluster/ "$6"
#   SGE:  qsub -terse -cwd -N "$1" -pe smp "$2" -l "h_vmem=$3M,h_rt=$(($4 * 60)),gpu=$5" -j y -o results/logs/cluster/ "$6"
mkdir -p results/logs/cluster
exec sbatch --parsable --job-name="$1" --ntasks=1 --cpus-per-task="$2" --mem="$3" --time="$4" --gpus="$5" \
    --output=results/logs/cluster/%x.%j.log "$6"
