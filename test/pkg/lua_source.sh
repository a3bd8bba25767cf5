#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lua_source.sh DIR: Lua 5.4's sources from Debian's archive, as DIR/src; for
# the consumer that compiles a Lua of its own. apt's own settings stay.
set -eu
mkdir -p "$1/apt/lists/partial"
cd "$1"
[ ! -d src ] || exit 0
mkdir -p apt/parts
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
	[ -f "$file" ] || continue
	case $file in
	*.list) sed -n 's/^deb /deb-src /p' "$file" ;;
	*.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
	esac >"apt/parts/${file##*/}"
done
options=(-qq -o Dir::Etc::sourcelist=/dev/null
	-o "Dir::Etc::sourceparts=$PWD/apt/parts"
	-o "Dir::State::lists=$PWD/apt/lists")
apt-get "${options[@]}" update
apt-get "${options[@]}" source --download-only lua5.4
tar -xzf lua5.4_*.orig.tar.gz --strip-components=1
[ -f src/lua.h ]
