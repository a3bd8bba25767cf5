#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gdb.sh SCRIPT PROGRAM [lua]: the printers and small-stats on a core of the
# program `held`, which has to show what held.c took.
set -eu
script=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v gdb >/dev/null || { echo "no gdb here"; exit 1; }
gdb -nx -batch -ex "break held" -ex run -ex "generate-core-file $work/core" \
	"$program" >"$work/log" 2>&1 </dev/null
[ -s "$work/core" ] || { cat "$work/log"; exit 1; }

gdb -nx -batch -ex "source $script" -ex "print *all->region" \
	-ex "small-stats all->region" -ex "small-stats all->pool" \
	-ex "print *all->pool" -ex "small-stats all->list" \
	-ex "print *all->list" -ex "small-stats all->lua" \
	-ex "print *all->lua" -ex "print all->lua->mem" \
	"$program" "$work/core" >"$work/out" 2>&1 </dev/null || true
gdb -nx -batch -ex "source $script" -ex "up" -ex "print quota" \
	-ex "print cache" -ex "small-stats 1" "$program" "$work/core" \
	>>"$work/out" 2>&1 </dev/null || true

want()
{
	grep -qE "$1" "$work/out" || {
		echo "gdb did not print: $1"
		cat "$work/out"
		exit 1
	}
}

want '= region \{used=123450 total=[0-9]+ retain=131072'
want '^region 0x'
want '^  used         123450$'
want '^slab_cache 0x'
want '^slab_arena 0x'
want '^quota 0x'
want '^  total        67108864$'
want '= quota \{used=[1-9][0-9]* total=67108864 refusals=0'
want '= slab_cache \{used=[1-9][0-9]* free=[0-9]+ garbage=0 .*spares=[1-9]'
want 'small-stats: not a struct of small'
want '= mempool \{objects=1000 objsize=64 used=64000 total=[0-9]+ slabs=[1-9]'
want '^mempool 0x'
want '^  objects      1000$'
want '= freelist \{used=5000 peak=8000 limit=1048576 .*refused=1\}'
want '^freelist 0x'
want '^  peak         8000$'
[ "${3:-}" = lua ] || exit 0
want '= sandbox \{calls=2 active=0 verdict=0 timeout_ns=1000000000 '
want '^sandbox 0x'
want '^luamem 0x'
want '= luamem \{used=[1-9][0-9]* peak=[1-9][0-9]* limit=2097152 '
