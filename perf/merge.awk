# SPDX-License-Identifier: BSD-2-Clause
# merge - adds ir_op, ir_net, ir_ratio and syscalls_op to the records of a
# group. awk -f merge.awk counts raw. The counts file has `count` lines (record,
# N, floor, base), then two `ir` lines and two `syscalls` lines for each, in order: of
# N and of 2N operations; what both have in common falls out.
BEGIN { FS = "\t"; counts = irs = syscalls = 0 }

$1 == "count" {
	name[counts] = $2
	ops[counts] = $3
	floors[counts] = $4
	bases[counts++] = $5
	next
}
$1 == "ir" { ir[irs++] = $2; next }
$1 == "syscalls" { calls[syscalls++] = $2; next }

function number(x) { return sprintf(x >= 1000 ? "%.0f" : "%.1f", x) }

FNR == 1 {
	if (irs < 2 * counts || syscalls < 2 * counts) {
		print "merge: counts are missing" > "/dev/stderr"
		exit 1
	}
	for (i = 0; i < counts; i++) {
		ir_op[name[i]] = (ir[2 * i + 1] - ir[2 * i]) / ops[i]
		sys_op[name[i]] = (calls[2 * i + 1] - calls[2 * i]) / ops[i]
		floor_of[name[i]] = floors[i]
		base_of[name[i]] = bases[i]
	}
}

/^bench=/ && ($1 in ir_op) {
	key = $1
	add = " ir_op=" number(ir_op[key])
	if ((floor_of[key] in ir_op) && floor_of[key] != key)
		add = add " ir_net=" number(ir_op[key] - ir_op[floor_of[key]])
	if ((base_of[key] in ir_op) && base_of[key] != key)
		add = add " ir_ratio=" \
			sprintf("%.3f", ir_op[key] / ir_op[base_of[key]])
	add = add " syscalls_op=" sprintf("%.3g", sys_op[key])
	# After the last ns_* measure, where a reader looks for it.
	if (match($2, /ns_max=[^ ]*/))
		$2 = substr($2, 1, RSTART + RLENGTH - 1) add \
			substr($2, RSTART + RLENGTH)
	else
		$2 = $2 add
	print $1 "\t" $2
	next
}
{ print }
