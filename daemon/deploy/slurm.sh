#!/bin/bash
#SBATCH --job-name=tic-job
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
#SBATCH --output=slurm-%j.out
#
# A job watched by tic: one daemon a node, started before the job's processes and ended after them.
#
#   sbatch slurm.sh                          after JOB below was filled in
#   sbatch slurm.sh python train.py ...      or with the job's command as arguments
#
# --signal=B:TERM@60 sends TERM to this script alone, a minute before the time limit. It is handed to the job, which then
# has the time to save a checkpoint; the daemons get theirs when the job has ended, so that they read its last lines. A
# requeue and scancel send TERM to all of them at once; what the daemons do not read then, they read at the next start.
# The script's exit code is the job's.
set -u

# --- to fill in ---------------------------------------------------------------------------------------------------
WORKSPACE=${TIC_WORKSPACE:-$SLURM_SUBMIT_DIR/tic-$SLURM_JOB_ID}   # seen by all nodes; logs and .tic/ lie in it
JOB=("$@")                                                        # or: JOB=(python train.py --config grpo.yaml)
TIC=${TIC_DAEMON:-tic-daemon}
READY_S=${TIC_READY_S:-60}                                        # the job starts after that, with or without daemons
# ------------------------------------------------------------------------------------------------------------------

# Signals a step by its name. Not through its srun, which answers TERM by killing the step at once.
term() {
    local step
    step=$(squeue -h -s -j "$SLURM_JOB_ID" -o '%i %j' | awk -v name="$1" '$2 == name { print $1; exit }')
    [ -n "$step" ] && scancel --signal=TERM "$step"
}

RESTART=${SLURM_RESTART_COUNT:-0}
LOGS=$WORKSPACE/logs/start-$RESTART            # each start writes into files of its own
READY=$WORKSPACE/.tic/ready-$SLURM_JOB_ID-$RESTART
if [ ${#JOB[@]} -eq 0 ]; then
    echo "slurm.sh: no job: fill in JOB, or give its command as arguments" >&2
    exit 2
fi
mkdir -p "$LOGS" "$READY" || exit 1
rm -f "$READY"/node-*

# --overlap: the daemons share the CPUs of the job's step. --gres=none, --mem=0: no GPU of their own, no memory set aside.
# The shell in each step takes the node's number; exec leaves the daemon alone in it.
# shellcheck disable=SC2016
srun --overlap --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 --gres=none --mem=0 \
    --kill-on-bad-exit=0 --job-name=tic-daemon --output="$WORKSPACE/.tic/daemon-$SLURM_JOB_ID-%n.log" --open-mode=append \
    bash -c 'export CUDA_VISIBLE_DEVICES=; exec "$1" watch "$2" --listen auto --ready "$3/node-$SLURM_NODEID"' \
    tic "$TIC" "$WORKSPACE" "$READY" &
DAEMONS=$!

# What is written before a daemon's first look belongs to the attempt before.
for ((tenths = 0; tenths < READY_S * 10; tenths++)); do
    found=("$READY"/node-*)
    [ -e "${found[0]}" ] && [ ${#found[@]} -ge "$SLURM_JOB_NUM_NODES" ] && break
    kill -0 "$DAEMONS" 2>/dev/null || break
    sleep 0.1
done
if ! kill -0 "$DAEMONS" 2>/dev/null; then
    echo "slurm.sh: the daemons did not start; see $WORKSPACE/.tic/daemon-$SLURM_JOB_ID-*.log; the job runs without them" >&2
fi

srun --kill-on-bad-exit=1 --job-name=tic-watched --output="$LOGS/rank_%t.out" --error="$LOGS/rank_%t.err" "${JOB[@]}" &
STEP=$!

SIGNALLED=
trap 'SIGNALLED=yes; term tic-watched' TERM INT

# A signal ends `wait` early: then the step is waited for again. 127: its end was told already.
wait "$STEP"
CODE=$?
while [ -n "$SIGNALLED" ]; do
    SIGNALLED=
    wait "$STEP"
    AGAIN=$?
    [ "$AGAIN" -eq 127 ] || CODE=$AGAIN
done

trap '' TERM INT
term tic-daemon
wait "$DAEMONS"
exit "$CODE"
