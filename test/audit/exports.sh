#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exports.sh SHARED STATIC MAP SYMBOLS: the shared library exports what its
# version script lists, no more and no less, Debian's symbols file lists the
# same, and every link name in the static one carries our prefix.
set -u
shared=$1 static=$2 map=$3 symbols=$4
failed=0

# Names between `global:` and `local:`.
listed=$(sed -n '/global:/,/local:/s/^[[:space:]]*\([a-z0-9_]*\);.*/\1/p' "$map")
if [ "$listed" != "$(sort <<<"$listed")" ]; then
	echo "$map is not sorted"
	failed=1
fi
exported=$(nm -D --defined-only "$shared" | awk '$2 != "A" {
	sub(/@.*/, "", $3); print $3 }' | sort)
if ! diff <(sort <<<"$listed") - <<<"$exported"; then
	echo "$shared: < listed in $map, > exported"
	failed=1
fi
noted=$(sed -n 's/^ \(small_[a-z0-9_]*\)@.*/\1/p' "$symbols" | sort)
if ! diff - <(echo "$noted") <<<"$exported"; then
	echo "$symbols: < missing there (add a line), > not exported any more"
	failed=1
fi
if [ -z "$listed" ]; then
	echo "$map: nothing listed"
	failed=1
fi

foreign=$(nm -g --defined-only "$static" |
	awk 'NF == 3 && $3 !~ /^small_/ { print $3 }' |
	grep -vE '^(__odr_asan|_*asan|__x86\.)')
if [ -n "$foreign" ]; then
	echo "$static: names without the prefix:" $foreign
	failed=1
fi
exit $failed
