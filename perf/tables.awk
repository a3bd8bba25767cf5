# SPDX-License-Identifier: BSD-2-Clause
# tables - turns records into tables for people, or into data for gnuplot.
# awk -f tables.awk SPECS RESULTS; a line of SPECS asks for one table:
#
#   bench=NAME rows=KEY[,KEY] [columns=KEY] cells=MEASURE[,MEASURE]
#   [where=KEY:VALUE[,...]] [scale=FACTOR format=%.1f]
#   [title=the rest of the line]
#
# With columns, each of its values is a column and there is one measure;
# without, each measure is a column. With -v data=1 the output is what gnuplot
# reads: quoted heads, "-" where a cell is missing.

function parse_spec(line, n, part, i, at) {
	n = ++specs
	at = index(line, "title=")
	if (at > 0) {
		title[n] = substr(line, at + 6)
		line = substr(line, 1, at - 1)
	}
	at = split(line, part, " ")
	for (i = 1; i <= at; i++) {
		split(part[i], kv, "=")
		spec[n, kv[1]] = substr(part[i], index(part[i], "=") + 1)
	}
}

# Does the record in `value` pass the conditions of spec n?
function passes(n, i, k, cond, kv) {
	if (value["bench"] != spec[n, "bench"])
		return 0
	k = split(spec[n, "where"], cond, ",")
	for (i = 1; i <= k; i++) {
		split(cond[i], kv, ":")
		if (value[kv[1]] != kv[2])
			return 0
	}
	return 1
}

# The measure as the table shows it.
function shown(n, x) {
	if (data || spec[n, "scale"] == "")
		return x
	return sprintf(spec[n, "format"], x * spec[n, "scale"])
}

function put(n, row, column, cell) {
	if (!((n, row) in row_seen)) {
		row_seen[n, row] = 1
		rows[n, ++row_count[n]] = row
	}
	if (!((n, column) in column_seen)) {
		column_seen[n, column] = 1
		columns[n, ++column_count[n]] = column
	}
	cells[n, row, column] = cell
}

function take(n, i, k, key, row, cell) {
	k = split(spec[n, "rows"], key, ",")
	row = value[key[1]]
	for (i = 2; i <= k; i++)
		row = row " " value[key[i]]
	k = split(spec[n, "cells"], cell, ",")
	for (i = 1; i <= k; i++) {
		if (!(cell[i] in value))
			continue
		put(n, row, spec[n, "columns"] != "" ? \
			value[spec[n, "columns"]] : cell[i], \
			shown(n, value[cell[i]]))
	}
}

function get(n, row, column) {
	return ((n, row, column) in cells) ? cells[n, row, column] : "-"
}

function print_data(n, i, j, line) {
	if (blocks++)
		print "\n"
	line = "\"" spec[n, "rows"] "\""
	for (j = 1; j <= column_count[n]; j++)
		line = line " \"" columns[n, j] "\""
	print line
	for (i = 1; i <= row_count[n]; i++) {
		line = rows[n, i]
		for (j = 1; j <= column_count[n]; j++)
			line = line " " get(n, rows[n, i], columns[n, j])
		print line
	}
}

# The widest of head and cells; k > 0: of the k-th row key, else column j.
function width_of(n, j, k, i, w, x) {
	w = length(k ? head[k] : columns[n, j])
	for (i = 1; i <= row_count[n]; i++) {
		if (k) {
			split(rows[n, i], part, " ")
			x = length(part[k])
		} else
			x = length(get(n, rows[n, i], columns[n, j]))
		if (x > w)
			w = x
	}
	return w
}

# Measures as columns stand in the order that the spec names them.
function order_columns(n, i, k, cell, m) {
	if (spec[n, "columns"] != "")
		return
	k = split(spec[n, "cells"], cell, ",")
	for (i = 1; i <= k; i++)
		if ((n, cell[i]) in column_seen)
			columns[n, ++m] = cell[i]
}

function print_table(n, i, j, k, keys, line, w, wide) {
	keys = split(spec[n, "rows"], head, ",")
	print ""
	print title[n] " (" spec[n, "bench"] \
		(spec[n, "columns"] != "" ? ", " spec[n, "cells"] : "") ")"
	line = ""
	for (k = 1; k <= keys; k++) {
		wide[k] = width_of(n, 0, k)
		line = line sprintf("  %-" wide[k] "s", head[k])
	}
	for (j = 1; j <= column_count[n]; j++) {
		w[j] = width_of(n, j, 0)
		line = line sprintf("  %" w[j] "s", columns[n, j])
	}
	print line
	for (i = 1; i <= row_count[n]; i++) {
		split(rows[n, i], part, " ")
		line = ""
		for (k = 1; k <= keys; k++)
			line = line sprintf("  %-" wide[k] "s", part[k])
		for (j = 1; j <= column_count[n]; j++)
			line = line sprintf("  %" w[j] "s",
				get(n, rows[n, i], columns[n, j]))
		print line
	}
}

FNR == NR { if ($0 ~ /^bench=/) parse_spec($0); next }

/^bench=/ {
	split("", value)
	for (f = 1; f <= NF; f++) {
		at = index($f, "=")
		value[substr($f, 1, at - 1)] = substr($f, at + 1)
	}
	for (s = 1; s <= specs; s++)
		if (passes(s))
			take(s)
}

END {
	for (s = 1; s <= specs; s++) {
		if (row_count[s] == 0)
			continue
		order_columns(s)
		if (data)
			print_data(s)
		else
			print_table(s)
	}
}
