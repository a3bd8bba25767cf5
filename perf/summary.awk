# SPDX-License-Identifier: BSD-2-Clause
# summary - one line a strategy and one a Lua, from the records of a run.
# awk -f summary.awk RESULTS

function least(name, s, x) {
	if (!((name, s) in low) || x < low[name, s])
		low[name, s] = x
}

function most(name, s, x) {
	if (!((name, s) in high) || x > high[name, s])
		high[name, s] = x
}

function note(s) {
	if (!(s in seen)) {
		seen[s] = 1
		order[++count] = s
	}
}

function time(ns) {
	if (ns == "")
		return "-"
	ns += 0
	if (ns < 1e3)
		return sprintf("%d ns", ns)
	if (ns < 1e6)
		return sprintf("%.1f us", ns / 1e3)
	return sprintf("%.1f ms", ns / 1e6)
}

function ratio(a, b) {
	if (b + 0 == 0)
		return "-"
	return sprintf("%.4f", a / b)
}

function cell(name, s, format) {
	return ((name, s) in high) ? sprintf(format, high[name, s]) : "-"
}

/^bench=region_(reset|collapse|drain) / {
	split("", v)
	for (i = 1; i <= NF; i++)
		v[substr($i, 1, index($i, "=") - 1)] = \
			substr($i, index($i, "=") + 1)
	s = v["strategy"]
	if (s == "floor" || v["state"] == "draining")
		next
	note(s)
	n = v["slabs"] + 0
	if (v["bench"] == "region_reset" && v["size"] == "64KiB") {
		if (n == 1)
			one[s] = v["ns_op"]
		if (n == 1000)
			thousand[s] = v["ns_op"]
	}
	if (v["bench"] == "region_drain")
		drop[s] = v["drop_ns"]
	if (v["bench"] != "region_collapse" || v["regions"] != 1)
		next
	phase = v["course"] " " v["phase"]
	req[s, phase] = v["req_s"]
	phases[phase] = 1
	if (v["req_s"] + 0 > best[phase] + 0)
		best[phase] = v["req_s"]
	most("used", s, v["used_after"] + 0)
	if (v["course"] != "collapse")
		next
	most("held", s, v["held_kib"] + 0)
	most("p999", s, v["p999_ns"] + 0)
	if (v["phase"] == 1)
		first[s] = v["req_s"]
	last[s] = v["req_s"]
}

/^bench=lua_script .*script=geomean arm=managed_limit/ {
	split("", v)
	for (i = 1; i <= NF; i++)
		v[substr($i, 1, index($i, "=") - 1)] = \
			substr($i, index($i, "=") + 1)
	lua[++luas] = sprintf("  %-8s %10s %10s %14s", v["lua"], \
		v["ratio_malloc"], v["ratio_mimalloc"] == "" ? "-" : \
		v["ratio_mimalloc"], v["min_limit_ratio"])
}

function print_luas(i) {
	print ""
	print "Lua under a hard limit (managed_limit), geometric mean of the" \
		" scripts"
	printf "  %-8s %10s %10s %14s\n", "", "time over", "time over",
		"least limit"
	printf "  %-8s %10s %10s %14s\n", "lua", "malloc", "mimalloc",
		"over the ideal"
	for (i = 1; i <= luas; i++)
		print lua[i]
}

function print_strategies(i, k, s, part, format) {
	for (k in req) {
		split(k, part, SUBSEP)
		least("share", part[1], req[k] / best[part[2]])
	}
	print ""
	print "One line a strategy (one region)"
	format = "  %-17s %9s %9s %10s %7s %8s %9s %9s %9s\n"
	printf format, "", "reset of", "reset of", "end of a", "last /",
		"worst /", "most KiB", "most used", "worst"
	printf format, "strategy", "1 slab", "1,000", "large one", "first",
		"best", "held", "after", "p99.9"
	for (i = 1; i <= count; i++) {
		s = order[i]
		printf format, s, time(one[s]), time(thousand[s]), time(drop[s]),
			ratio(last[s], first[s]),
			((("share", s) in low) ? \
				sprintf("%.4f", low["share", s]) : "-"),
			cell("held", s, "%d"), cell("used", s, "%d"),
			time(high["p999", s])
	}
	print "  last / first: requests/s in the last phase of the collapse over" \
		" the first one;"
	print "  worst / best: in its worst phase of all courses, over the best" \
		" strategy there"
}

END {
	if (count > 0)
		print_strategies()
	if (luas > 0)
		print_luas()
}
