# SPDX-License-Identifier: BSD-2-Clause
# compare - prints what moved between two results.txt by more than its noise.
# awk -f compare.awk OLD NEW
#
# A time X_op, X_s or X that carries X_min and X_max moved when each median
# lies outside the other run's range, and by more than 5 %. What repeats
# exactly (ir_*, syscalls_op, slabs, used_after, *_kib, *_ratio) moved when it
# differs by more than 1 % or 0.5. Other times (percentiles) have no spread of
# their own: 50 %. Extremes, page faults and RSS are left out.

function stem(measure) { sub(/_(op|s)$/, "", measure); return measure }

function is_measure(key) { return (key in measures) }

function load(file_no, i, at, key, name) {
	name = ""
	split("", value)
	for (i = 1; i <= NF; i++) {
		at = index($i, "=")
		key = substr($i, 1, at - 1)
		if (is_measure(key))
			value[key] = substr($i, at + 1)
		else
			name = name (name == "" ? "" : " ") $i
	}
	for (key in value)
		result[file_no, name, key] = value[key]
	if (file_no == 1)
		old_name[name] = 1
	else
		order[++news] = name
}

function abs(x) { return x < 0 ? -x : x }

# The range that the run `file_no` saw of the measure, as low and high.
function range(file_no, name, key, s) {
	s = stem(key)
	# Reading an element would make it.
	if (!((file_no, name, s "_min") in result))
		return 0
	low = result[file_no, name, s "_min"] + 0
	high = result[file_no, name, s "_max"] + 0
	return 1
}

function is_outside(x, file_no, name, key) {
	return range(file_no, name, key) && (x < low || x > high)
}

function moved(name, key, a, b, diff) {
	a = result[1, name, key] + 0
	b = result[2, name, key] + 0
	diff = abs(b - a)
	if (range(1, name, key) && range(2, name, key)) {
		if (diff <= 0.05 * abs(a))
			return 0
		return is_outside(b, 1, name, key) && \
			is_outside(a, 2, name, key)
	}
	if (key ~ /^p[0-9]+_|_p[0-9]+_|_ns$|_s$|^ms$/)
		return diff > 0.5 * abs(a)
	return diff > 0.01 * abs(a) && diff > 0.5
}

function is_skipped(key) {
	return key ~ /(_min|_max)$|^max_|^faults|^rss|^ratio$|^requests$/
}

/^# measures:/ { for (i = 3; i <= NF; i++) measures[$i] = 1 }
FNR == 1 { file++ }
/^bench=/ { load(file) }

END {
	for (i = 1; i <= news; i++) {
		name = order[i]
		if (!(name in old_name)) {
			print "new   " name
			continue
		}
		delete old_name[name]
		for (key in measures) {
			if (is_skipped(key) || !((1, name, key) in result) ||
			    !((2, name, key) in result))
				continue
			compared++
			if (!moved(name, key))
				continue
			count++
			a = result[1, name, key]
			printf "moved %s %s: %s -> %s", name, key, a,
				result[2, name, key]
			if (a + 0 != 0)
				printf " (%+.1f %%)",
					100 * (result[2, name, key] / a - 1)
			print ""
		}
	}
	for (name in old_name)
		print "gone  " name
	printf "compare: %d of %d measures moved\n", count, compared
}
