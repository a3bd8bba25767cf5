#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# fastpath.sh ROOT: reads the machine code of a lease and of an end_lease and
# fails on a lock prefix, an exchange or a fence, with each compiler that is
# here. An intruder that has all of these comes first and must be found.
set -u
root=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/fast.c" <<'END'
#include <small/quota_lessor.h>
ssize_t lease(struct quota_lessor *l, size_t size);
void end_lease(struct quota_lessor *l, size_t size);
ssize_t lease(struct quota_lessor *l, size_t size)
{
	return quota_lease(l, size);
}
void end_lease(struct quota_lessor *l, size_t size)
{
	quota_end_lease(l, size);
}
END
cat >"$dir/adds.c" <<'END'
#include <stddef.h>
size_t f(size_t *p) { return __atomic_fetch_add(p, 2, __ATOMIC_SEQ_CST); }
END
cat >"$dir/swaps.c" <<'END'
#include <stddef.h>
size_t f(size_t *p) { return __atomic_exchange_n(p, 2, __ATOMIC_SEQ_CST); }
END
cat >"$dir/fences.c" <<'END'
void f(void) { __sync_synchronize(); }
END

# x86: lock prefixes, exchanges, fences. aarch64: barriers, exclusive pairs,
# the atomic instructions and calls to helpers.
ordered='\<lock\>|xchg|\<[lsm]fence\>'
ordered+='|\<(dmb|dsb|isb|lda?xr|stl?xr|cas|swp|ldadd|ldset|ldclr)|__aarch64_'

# has_order COMPILER SOURCE: 0 if the code has any of these. xchg %ax,%ax is
# padding.
has_order()
{
	"$1" -std=c11 -O2 -fno-PIE -I"$root" -c -o "$dir/x.o" "$dir/$2.c" ||
		exit 1
	objdump -d --no-show-raw-insn "$dir/x.o" >"$dir/x.s" || exit 1
	grep -q '>:$' "$dir/x.s" || exit 1
	grep -v 'xchg  *%ax,%ax' "$dir/x.s" | grep -E "$ordered"
}

failed=0
for compiler in gcc clang; do
	command -v $compiler >/dev/null || continue
	for source in adds swaps fences; do
		if ! has_order $compiler $source >/dev/null; then
			echo "fastpath.sh can not see what $compiler $source"
			failed=1
		fi
	done
	if has_order $compiler fast; then
		echo "$compiler: not free of order"
		failed=1
	fi
	echo "$compiler: $(grep -cE '^ +[0-9a-f]+:' "$dir/x.s") instructions," \
		"slow halves' calls included"
done
exit $failed
