#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# gdb.sh SCRIPT PROGRAM: the printers and small-stats on a core of the
# program `held`, which has to show what held.c took.
set -eu
script=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v gdb >/dev/null || { echo "no gdb here"; exit 1; }
gdb -nx -batch -ex "break held" -ex run -ex "generate-core-file $work/core" \
	"$program" >"$work/log" 2>&1 </dev/null
[ -s "$work/core" ] || { cat "$work/log"; exit 1; }

gdb -nx -batch -ex "source $script" -ex "print *region" \
	-ex "small-stats region" -ex "print quota" \
	-ex "up" -ex "print quota" -ex "print cache" \
	-ex "small-stats 1" "$program" "$work/core" \
	>"$work/out" 2>&1 </dev/null || true

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
want '= quota \{used=1048576 total=67108864 refusals=0'
want '= slab_cache \{used=[1-9][0-9]* free=[0-9]+ garbage=0 .*spares=[1-9]'
want 'small-stats: not a struct of small'
