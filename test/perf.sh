#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# perf.sh - what perf/ makes of records is right: counts merged, tables, the
# comparison of two runs. No program is run, so it costs nothing.
set -euo pipefail
cd "$(dirname "$0")/../perf"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect NAME: standard input is what $work/got must be.
expect()
{
	if diff -u - "$work/got"; then
		echo "ok $1"
	else
		echo "FAILED $1"
		failed=1
	fi
}

tab=$(printf '\t')
cat >"$work/counts" <<-END
	count${tab}bench=b arm=floor${tab}10${tab}bench=b arm=floor
	count${tab}bench=b arm=ours${tab}10${tab}bench=b arm=floor${tab}bench=b arm=floor
	ir${tab}103
	ir${tab}203
	ir${tab}507
	ir${tab}1007
	syscalls${tab}0
	syscalls${tab}0
	syscalls${tab}3
	syscalls${tab}23
END
cat >"$work/raw" <<-END
	# seed: 1
	bench=b arm=floor${tab}ns_op=1 ns_min=1 ns_max=2 faults=0
	bench=b arm=ours${tab}ns_op=5 ns_min=4 ns_max=6 faults=0
	bench=b arm=other${tab}ns_op=9 ns_min=8 ns_max=9 faults=0
END
awk -f merge.awk "$work/counts" "$work/raw" >"$work/got"
expect "counts are merged, the floor is taken off" <<-END
	# seed: 1
	bench=b arm=floor${tab}ns_op=1 ns_min=1 ns_max=2 ir_op=10.0 syscalls_op=0 faults=0
	bench=b arm=ours${tab}ns_op=5 ns_min=4 ns_max=6 ir_op=50.0 ir_net=40.0 ir_ratio=5.000 syscalls_op=2 faults=0
	bench=b arm=other${tab}ns_op=9 ns_min=8 ns_max=9 faults=0
END

head -n 9 "$work/counts" >"$work/short"
if awk -f merge.awk "$work/short" "$work/raw" >"$work/got" 2>&1; then
	echo "FAILED a missing count is no success"
	failed=1
fi

cat >"$work/old" <<-END
	# seed: 1
	# clock_ns: 20 (in each)
	# measures b: ns_op ns_min ns_max ir_op held_kib p99_ns faults requests p999_ns
	bench=b arm=still ns_op=10 ns_min=9 ns_max=12 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=noisy ns_op=10 ns_min=9 ns_max=30 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=slower ns_op=10 ns_min=9 ns_max=12 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=lost ns_op=10 ns_min=9 ns_max=12 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=once ns_op=10 ns_min=10 ns_max=10
	bench=b arm=cut requests=100 held_kib=80 p99_ns=40 p999_ns=90
	# measures c: ns_op limit_ratio
	bench=c held_kib=1 ns_op=10 limit_ratio=1.10
	bench=c held_kib=2 ns_op=10 limit_ratio=1.10
END
cat >"$work/new" <<-END
	# seed: 2
	# clock_ns: 20 (in each)
	# measures b: ns_op ns_min ns_max ir_op held_kib p99_ns faults requests p999_ns
	bench=b arm=still ns_op=10.4 ns_min=9 ns_max=12 ir_op=15.1 held_kib=4 p99_ns=50 faults=90
	bench=b arm=noisy ns_op=20 ns_min=19 ns_max=40 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=slower ns_op=20 ns_min=19 ns_max=21 ir_op=18.0 held_kib=8 p99_ns=90 faults=1
	bench=b arm=added ns_op=10 ns_min=9 ns_max=12 ir_op=15.0 held_kib=4 p99_ns=40 faults=1
	bench=b arm=once ns_op=14 ns_min=14 ns_max=14
	bench=b arm=cut requests=120 held_kib=96 p99_ns=60 p999_ns=400
	# measures c: ns_op limit_ratio
	bench=c held_kib=1 ns_op=10 limit_ratio=1.11
	bench=c held_kib=2 ns_op=90 limit_ratio=1.20
END
awk -f compare.awk "$work/old" "$work/new" | sort >"$work/got"
expect "what moved beyond its noise is named, nothing else" <<-END
	compare: 6 of 20 measures moved
	gone  bench=b arm=lost
	moved bench=b arm=slower held_kib: 4 -> 8 (+100.0 %)
	moved bench=b arm=slower ir_op: 15.0 -> 18.0 (+20.0 %)
	moved bench=b arm=slower ns_op: 10 -> 20 (+100.0 %)
	moved bench=b arm=slower p99_ns: 40 -> 90 (+125.0 %)
	moved bench=c held_kib=2 limit_ratio: 1.10 -> 1.20 (+9.1 %)
	moved bench=c held_kib=2 ns_op: 10 -> 90 (+800.0 %)
	new   bench=b arm=added
	note  seed: 1 -> 2
END

cat >"$work/spec" <<-END
	# a comment
	bench=t rows=n columns=arm cells=ns_op where=state:on scale=0.001 format=%.2f title=Pivot
	bench=t rows=n,arm cells=ir_op,ns_op title=List
END
cat >"$work/records" <<-END
	bench=t n=1 arm=a state=on ns_op=1000
	bench=t n=1 arm=b state=on ns_op=2000 ir_op=7
	bench=t n=10 arm=b state=on ns_op=2500
	bench=t n=10 arm=a state=off ns_op=9
END
awk -f tables.awk "$work/spec" "$work/records" | sed 's/ *$//' >"$work/got"
expect "tables: columns, conditions, scale, missing cells" <<-END

	Pivot (t, ns_op)
	  n      a     b
	  1   1.00  2.00
	  10     -  2.50

	List (t)
	  n   arm  ir_op  ns_op
	  1   a        -   1000
	  1   b        7   2000
	  10  b        -   2500
	  10  a        -      9
END

for bad in "--seed" "--seed x" "--compare /nonexistent" "--wrong" "nogroup"; do
	# shellcheck disable=SC2086
	if ./measure --check $bad >/dev/null 2>&1; then
		echo "FAILED measure took: $bad"
		failed=1
	fi
done
exit $failed
