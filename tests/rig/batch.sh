#!/bin/bash
# A small batch system, with its state on disk and real processes as jobs, in the manner of three others.
#   batch.sh install STYLE DIR   puts its commands into DIR. STYLE: pbs (qsub qstat qdel), lsf (bsub bjobs bkill bstop bresume), or
#                                jobman, which shows no names (jobman submit|list|kill)
# The script is told which command it is by its name. Files that a test makes in DIR:
#   shut   jobs wait until it is gone
#   lose   the next submission is taken, and its answer is lost
# What it says is English, German or Chinese, as its environment asks for.
# DIR/calls has a line for each command. DIR/jobs/ID.TASK is a job; TASK is 0 without an array.

set -eu
DIR=$(dirname "$(readlink -f "$0")")
JOBS=$DIR/jobs

# --- what all have ------------------------------------------------------------------------------

next_id() {
  exec 9>>"$DIR/lock"
  flock 9
  local id=$(($(cat "$DIR/next" 2>/dev/null || echo 6) + 1))
  echo "$id" >"$DIR/next"
  exec 9>&-
  echo "$id"
}

state() { cat "$JOBS/$1/state" 2>/dev/null || true; }
# A state appears whole.
become() { echo "$2" >"$JOBS/$1/state.new" && mv "$JOBS/$1/state.new" "$JOBS/$1/state"; }

# take ID NAME FIRST LAST: a job for each task; 0 0 without an array.
take() {
  local task
  for task in $(seq "$3" "$4"); do
    mkdir -p "$JOBS/$1.$task"
    echo "$2" >"$JOBS/$1.$task/name"
    become "$1.$task" waiting
    setsid "$DIR/batch" run "$1" "$task" </dev/null >/dev/null 2>&1 &
  done
}

# run ID TASK: waits for its turn, then for the job. Only the batch task itself gets signals, as with SLURM.
run() {
  local job=$1.$2 id=$1 code=0 shut
  while :; do
    # Read first: what is held before the system is opened stays.
    if [ -e "$DIR/shut" ]; then shut=1; else shut=''; fi
    case $(state "$job") in
      held) ;;
      waiting) [ -n "$shut" ] || break ;;
      *) return 0 ;;
    esac
    sleep 0.05
  done
  [ "$2" = 0 ] || id="$1[$2]"
  env PBS_JOBID="$id.rig" PBS_ARRAY_INDEX="$2" LSB_JOBID="$1" LSB_JOBINDEX="$2" JOBMAN_ID="$1" \
    setsid /bin/sh "$DIR/scripts/$1" >"$JOBS/$job/out" 2>&1 &
  echo $! >"$JOBS/$job/pid"
  become "$job" running
  wait $! || code=$?
  if [ $code = 0 ]; then become "$job" ended; else become "$job" failed; fi
}

# kill_task JOB
kill_task() {
  case $(state "$1") in
    waiting | held) become "$1" failed ;;
    running) kill -TERM "$(cat "$JOBS/$1/pid")" ;;
  esac
}

hold_task() { [ "$(state "$1")" != waiting ] || become "$1" held; }
release_task() { [ "$(state "$1")" != held ] || become "$1" waiting; }

kill_job() { tasks_of "$1" kill_task; }

# tasks_of 7 | 7[] | 7[3] FUNCTION
tasks_of() {
  local id=${1%%[!0-9]*} job found=
  for job in "$JOBS/$id".*; do
    case $1 in
      "$id["[0-9]*) [ "$id[${job##*.}]" = "$1" ] || continue ;;
    esac
    [ ! -d "$job" ] || { found=1; "$2" "${job##*/}"; }
  done
  [ -n "$found" ] || { echo "$(basename "$0"): no such job $1" >&2; return 1; }
}

# say ENGLISH GERMAN CHINESE
say() {
  case ${LC_ALL:-${LC_MESSAGES:-${LANG:-}}} in
    de*) echo "$2" ;;
    zh*) echo "$3" ;;
    *) echo "$1" ;;
  esac
}

# The answer of a submission, which may be lost.
answer() {
  if [ -e "$DIR/lose" ]; then
    rm "$DIR/lose"
    echo 'connection lost' >&2
    exit 1
  fi
  say "$@"
}

# each FUNCTION: calls it with ID, TASK, name and state of each job.
each() {
  local job
  for job in $(ls "$JOBS" 2>/dev/null | sort -n -t. -k1,1 -k2,2); do
    "$1" "${job%.*}" "${job#*.}" "$(cat "$JOBS/$job/name")" "$(state "$job")"
  done
}

option() { sed -n "s/^#$1 //p" "$2" | tail -n 1; }

# --- in the manner of PBS -------------------------------------------------------------------------

qsub() {
  local id name range first=0 last=0
  id=$(next_id)
  cat >"$DIR/scripts/$id"
  name=$(option 'PBS -N' "$DIR/scripts/$id")
  range=$(option 'PBS -J' "$DIR/scripts/$id")
  if [ "$(option 'PBS -q' "$DIR/scripts/$id")" = closed ]; then
    echo 'qsub: Unknown queue' >&2
    exit 170
  fi
  if [ -n "$range" ]; then
    first=${range%-*} last=${range#*-}
    take "$id" "$name" "$first" "$last"
    answer "$id[].rig" "$id[].rig" "$id[].rig"
  else
    take "$id" "$name" 0 0
    answer "$id.rig" "$id.rig" "$id.rig"
  fi
}

pbs_row() {
  local id=$1 letter=$4
  [ "$2" = 0 ] || id="$1[$2]"
  case $4 in
    waiting) letter=Q ;;
    running) letter=R ;;
    *) return 0 ;;
  esac
  # Long names are cut.
  printf '%-30s %-15s %-15s %-15s %8s %4s %5s %6s %5s %s %s\n' \
    "$id.rig" me work "${3:0:14}*" 4242 1 1 -- 01:00 "$letter" 00:00
}

qstat() {
  [ -n "$(ls "$JOBS" 2>/dev/null)" ] || return 0
  printf '\nrig: \n%90s\n%-30s %-15s %-15s %-15s\n' "Req'd" 'Job ID' Username Queue Jobname
  each pbs_row
}

qdel() { kill_job "$1"; }

# --- in the manner of LSF -------------------------------------------------------------------------

bsub() {
  local id name range first=0 last=0
  [ "$1" = -J ] || exit 255
  id=$(next_id)
  cat >"$DIR/scripts/$id"
  name=${2%%[*}
  if [ "$name" != "$2" ]; then
    range=${2#*[} range=${range%%]*}
    first=${range%-*} last=${range#*-}
  fi
  if [ "$(option 'BSUB -q' "$DIR/scripts/$id")" = closed ]; then
    say 'closed: No such queue. Job not submitted.' 'closed: Warteschlange unbekannt. Auftrag nicht angenommen.' \
      'closed：没有这样的队列。作业未提交。' >&2
    exit 255
  fi
  take "$id" "$name" "$first" "$last"
  answer "Job <$id> is submitted to default queue <normal>." \
    "Auftrag <$id> wurde an die Warteschlange <normal> übergeben." "作业 <$id> 已提交到缺省队列 <normal>。"
}

lsf_row() {
  local word name=$3
  [ "$2" = 0 ] || name="$3[$2]"
  case $4 in
    waiting) word=PEND ;;
    held) word=PSUSP ;;
    running) word=RUN ;;
    ended) word=DONE ;;
    *) word=EXIT ;;
  esac
  echo "$1 $2 $word $name"
}

bjobs() {
  [ -n "$(ls "$JOBS" 2>/dev/null)" ] || { say 'No job found' 'Kein Auftrag gefunden' '未找到作业' >&2; exit 255; }
  each lsf_row
}

bkill() { kill_job "$1"; }
bstop() { tasks_of "$1" hold_task; }
bresume() { tasks_of "$1" release_task; }

# --- one that shows no names ------------------------------------------------------------------------

jobman_row() {
  case $4 in
    waiting) say "$1 waiting" "$1 wartet" "$1 等待" ;;
    running) say "$1 running" "$1 läuft" "$1 运行" ;;
  esac
}

jobman() {
  local id
  case $1 in
    submit)
      id=$(next_id)
      cp "$2" "$DIR/scripts/$id"
      take "$id" "" 0 0
      answer "job $id queued" "Auftrag $id eingereiht" "作业 $id 已排队"
      ;;
    list) each jobman_row ;;
    kill) kill_job "$2" ;;
    *) exit 2 ;;
  esac
}

install() {
  local name names
  case $1 in
    pbs) names='qsub qstat qdel' ;;
    lsf) names='bsub bjobs bkill bstop bresume' ;;
    jobman) names=jobman ;;
  esac
  mkdir -p "$2/scripts" "$2/jobs"
  for name in batch $names; do install_one "$2/$name"; done
}

# A copy, so that the folder of each knows its own state.
install_one() { cp "$SELF" "$1" && chmod 755 "$1"; }

SELF=$(readlink -f "$0")
if [ "${1:-}" = install ] && [ "${0##*/}" = batch.sh ]; then
  install "$2" "$3"
elif [ "${0##*/}" = batch ]; then
  "$@"
else
  echo "${0##*/} $*" >>"$DIR/calls"
  "${0##*/}" "$@"
fi
