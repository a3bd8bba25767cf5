# SPDX-License-Identifier: BSD-2-Clause
# compare - prints what moved between two results.txt by more than its noise.
# awk -f compare.awk OLD NEW
#
# A time X_op, X_s or X that carries X_min and X_max moved when each median
# lies outside the other run's range, and by more than 5 %. Times without a
# spread of their own, of a single round or a percentile, moved when they
# differ by more than one reading of the clock and 50 %; p99 by 100 %, p99.9 by
# 400 %; not at all where a run started on a busy machine. What repeats exactly
# (ir_*, syscalls_op, slabs, used_after, *_kib, *_ratio) moved when it differs
# by more than 1 % and 0.5, a share or a ratio by more than 2 %; by 50 % where
# the two runs did not get through equally many requests. Extremes, ratios of times, page faults and RSS are left
# out.
#
# What the runs were made on is compared, too: `note` lines.

function stem(measure) { sub(/_(op|s)$/, "", measure); return measure }

# The measures of each bench are told by its `# measures NAME:` line.
function is_measure(bench, key) { return ((bench, key) in measures) }

function load(file_no, i, at, key, name) {
	name = ""
	split("", value)
	for (i = 1; i <= NF; i++) {
		at = index($i, "=")
		key = substr($i, 1, at - 1)
		if (is_measure(substr($1, 7), key))
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
	return low < high
}

function is_outside(x, file_no, name, key) {
	return range(file_no, name, key) && (x < low || x > high)
}

function is_time(key) {
	return key ~ /^p[0-9]+_|_p[0-9]+_|_ns$|_s$|_op$|^ms$/ && \
		key !~ /^(ir|syscalls|allocs|refused|recalls)_op$/
}

# Times without a spread, as a share of the old one.
function noise_of(key) {
	if (key ~ /p999/)
		return 4
	return key ~ /p99/ ? 1 : 0.5
}

function has_other_load(name) {
	return ((1, name, "requests") in result) && \
		result[1, name, "requests"] != result[2, name, "requests"]
}

function moved(name, key, a, b, diff, most) {
	a = result[1, name, key] + 0
	b = result[2, name, key] + 0
	diff = abs(b - a)
	if (range(1, name, key) && range(2, name, key)) {
		if (diff <= 0.05 * abs(a))
			return 0
		return is_outside(b, 1, name, key) && \
			is_outside(a, 2, name, key)
	}
	most = abs(a) < abs(b) ? abs(a) : abs(b)
	if (is_time(key))
		return !is_busy && diff > noise_of(key) * most && \
			(key !~ /ns/ || diff > clock)
	if (key ~ /_ratio|^over$|^returned$/)
		return diff > 0.02 * abs(a)
	if (has_other_load(name))
		return diff > 0.5 * most && diff > 0.5
	return diff > 0.01 * abs(a) && diff > 0.5
}

function is_skipped(key) {
	return key ~ /(_min|_max)$|^max_|^faults|^rss|^ratio|^requests$/
}

/^# measures / {
	sub(/:$/, "", $3)
	for (i = 4; i <= NF; i++) {
		measures[$3, $i] = 1
		names[$i] = 1
	}
}
FNR == 1 { file++ }
/^# clock_ns:/ && $3 > clock { clock = $3 }
/^# cpu:/ { online = $(NF - 1) }
/^# load:/ && $3 > online { is_busy = 1 }
/^# (cpu|compiler|flags|seed|rounds|level|load):/ {
	about = $0
	sub(/^# [a-z_]*: */, "", about)
	if (file == 1)
		on[$2] = about
	else if (on[$2] != about)
		print "note  " $2 " " on[$2] " -> " about
}
/^bench=/ { load(file) }

END {
	if (is_busy)
		print "note  busy: times without a spread are left out"
	for (i = 1; i <= news; i++) {
		name = order[i]
		if (!(name in old_name)) {
			print "new   " name
			continue
		}
		delete old_name[name]
		for (key in names) {
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
