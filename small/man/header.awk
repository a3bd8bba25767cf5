# header.awk: a manual page from a public header, so that the two never differ.
#
#	awk -v version=0.1.0 -f header.awk small/region.h >small_region.3
#
# The first comment becomes NAME and DESCRIPTION, prototypes and the comments
# before them SYNOPSIS and FUNCTIONS, structs DATA. Bodies, macros and names
# that end in _slow or _impl (halves of inline functions) are left out.

function text(line)
{
	gsub(/\\/, "\\e", line)
	gsub(/-/, "\\-", line)
	if (line ~ /^[.']/)
		line = "\\&" line
	return line
}

# A comment line without its frame.
function bare(line)
{
	sub(/^[ \t]*\/\*+ ?/, "", line)
	sub(/ *\*\/[ \t]*$/, "", line)
	sub(/^ \* ?/, "", line)
	sub(/^[ \t]+$/, "", line)
	return line
}

function add_comment(line)
{
	comment = comment line "\n"
}

# One prototype on one line, ours removed.
function clean(decl)
{
	gsub(/[ \t\n]+/, " ", decl)
	gsub(/SMALL_API /, "", decl)
	gsub(/static inline /, "", decl)
	gsub(/ *SMALL_SYM\([a-z0-9_]*\)/, "", decl)
	gsub(/ *__attribute__\(\([^;]*\)\)/, "", decl)
	sub(/ *[{;].*$/, ";", decl)
	return decl
}

function emit_function(decl)
{
	decl = clean(decl)
	if (decl ~ /_(slow|impl)\(/) {
		comment = ""
		return
	}
	synopsis = synopsis text(decl) "\n.br\n"
	functions = functions ".TP\n.B " text(decl) "\n"
	functions = functions paragraph(comment)
	comment = ""
}

function paragraph(block,	lines, n, i, out)
{
	n = split(block, lines, "\n")
	for (i = 1; i <= n; i++)
		if (lines[i] != "")
			out = out text(lines[i]) "\n"
	return out
}

/^\/\* SPDX/ || /^#/ || /^extern "C"/ {
	if (/^#if.*__cplusplus/)
		next
	if (/^#/ && !/^#ifndef SMALL_.*_H/ && !/^#define SMALL_.*_H$/)
		comment = ""
	if (/\\$/)
		in_macro = 1
	next
}
in_macro { if (!/\\$/) in_macro = 0; next }
/^inline namespace/ { exit_now = 1 }
exit_now { next }

in_comment {
	add_comment(bare($0))
	if (/\*\//) {
		in_comment = 0
		if (!head) {
			head = comment
			comment = ""
		}
	}
	next
}
in_body { if (/^}/) in_body = 0; next }
in_struct {
	data = data text($0) "\n"
	if (/^}/) {
		in_struct = 0
		data = data ".EE\n"
	}
	next
}
decl == "" && /^[ \t]*\/\*/ {
	comment = ""
	add_comment(bare($0))
	if (!/\*\//)
		in_comment = 1
	else if (!head) {
		head = comment
		comment = ""
	}
	next
}
decl == "" && /^(struct|enum) [a-z_]+ \{/ {
	data = data ".PP\n" paragraph(comment) ".PP\n.EX\n" text($0) "\n"
	comment = ""
	in_struct = 1
	next
}
decl != "" || /^(SMALL_API|static inline) / {
	decl = decl $0 "\n"
	if (/;[ \t]*$/) {
		emit_function(decl)
		decl = ""
	} else if (/^{/) {
		emit_function(decl)
		decl = ""
		in_body = 1
	}
	next
}
/^$/ { next }

END {
	path = FILENAME
	sub(/^.*small\//, "", path)
	if (FILENAME ~ /small\/lua\//)
		path = "lua/" path
	sub(/^lua\/lua\//, "lua/", path)
	name = path
	sub(/^.*\//, "", name)
	sub(/\.h$/, "", name)
	n = split(head, lines, "\n")
	first = 1
	while (first <= n && lines[first] == "")
		first++
	purpose = lines[first]
	while (first < n && purpose !~ /[.:]$/ && lines[first + 1] != "")
		purpose = purpose " " lines[++first]
	sub(/^[a-z_]+ - /, "", purpose)
	sub(/[.:]$/, "", purpose)
	printf ".TH SMALL_%s 3 \"\" \"small %s\"\n", toupper(name), version
	printf ".SH NAME\nsmall_%s \\- %s\n", name, text(purpose)
	printf ".SH SYNOPSIS\n.nf\n.B #include <small/%s>\n.fi\n.PP\n", path
	printf "%s", synopsis
	printf ".SH DESCRIPTION\n.EX\n"
	for (i = first + 1; i <= n; i++)
		print text(lines[i])
	printf ".EE\n"
	if (functions != "")
		printf ".SH FUNCTIONS\n%s", functions
	if (data != "")
		printf ".SH DATA\n%s", data
	printf ".SH SEE ALSO\n.BR small (7)\n"
}
