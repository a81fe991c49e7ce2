#!/bin/sh
# Say how the job with this id fares, in one of three words: running, success, failed.
state=$(squeue --noheader --states=all --jobs="$1" --format=%T 2>/dev/null | head -n 1)
case $state in
COMPLETED) echo success ;;
PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | REQUEUED | RESIZING | STAGE_OUT | SIGNALING | STOPPED) echo running ;;
# An id that nobody knows is lost; where nobody answers, ask again later.
'') if squeue --noheader >/dev/null 2>&1; then echo failed; else echo running; fi ;;
*) echo failed ;;
esac
