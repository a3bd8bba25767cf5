#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# consume.sh ROOT BUILD WAY: a program comes by this library in one of five
# ways (a folder of test/pkg), is built and run. ROOT is the source; BUILD is
# a build of it, installed first for the ways that need that; `-` takes what
# the system has installed. Works in ./pkg/WAY.
set -eu
root=$(cd "$1" && pwd) build=$2 way=$3
work=$PWD/pkg/$way
prefix=$PWD/pkg/$way/prefix
rm -rf "$work"
mkdir -p "$work"
cp "$root/test/pkg/$way"/* "$root"/test/pkg/*.c "$root"/test/pkg/*.cc "$work"

configure()
{
	cmake -S "$work" -B "$work/build" -G Ninja "$@"
	cmake --build "$work/build"
}

# What was installed moves: the package must not name its first place.
install_build()
{
	[ "$build" = - ] && return 0
	cmake --install "$build" --prefix "$prefix.first" >/dev/null
	mv "$prefix.first" "$prefix"
	export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
	PKG_CONFIG_PATH+=:$(echo "$prefix"/lib/*/pkgconfig)
	export LD_LIBRARY_PATH=$prefix/lib
	export CMAKE_PREFIX_PATH=$prefix
}

# Each program of the folder $1 does what README says.
run_programs()
{
	local app

	for app in "$1"/app*; do
		[ -f "$app" ] && [ -x "$app" ] || continue
		echo "run ${app##*/}"
		case ${app##*/} in
		app_lua*) [ "$("$app" 2>/dev/null)" = "0 3" ] ;;
		app_cxx*) [ "$("$app")" = guarded ] ;;
		*) [ "$(echo world | "$app")" = "hello, world" ] ;;
		esac || {
			echo "$app: wrong answer"
			return 1
		}
	done
}

# The program's own Lua: compiled from the folder SMALL_LUA_SOURCE (Lua's src/;
# test/pkg/lua_source.sh fetches one), else the static one that Debian has
# built, copied.
own_lua()
{
	if [ -n "${SMALL_LUA_SOURCE:-}" ]; then
		cp "$SMALL_LUA_SOURCE"/*.[ch] "$work/mylua"
		rm -f "$work/mylua/lua.c" "$work/mylua/luac.c"
		return 0
	fi
	cp "$(pkg-config --variable=includedir lua5.4)"/lua5.4/*.h \
		"$work/mylua"
	cp "$(pkg-config --variable=libdir lua5.4)/liblua5.4.a" \
		"$work/mylua/liblua.a"
}

case $way in
submodule)
	ln -s "$root" "$work/small"
	configure
	run_programs "$work/build"
	DESTDIR=$work/dest cmake --install "$work/build" >/dev/null
	[ "$(find "$work/dest" -type f | wc -l)" = 1 ] || {
		echo "small installs itself along with its parent"
		exit 1
	}
	;;
fetchcontent)
	configure "-DFETCHCONTENT_SOURCE_DIR_SMALL=$root" \
		-DSMALL_GIT=unused
	run_programs "$work/build"
	;;
package)
	install_build
	configure
	run_programs "$work/build"
	;;
pkgconfig)
	install_build
	make -C "$work"
	run_programs "$work"
	;;
vendored)
	ln -s "$root" "$work/small"
	mkdir "$work/mylua"
	own_lua
	# From here on, no Lua of the system can be found.
	export PKG_CONFIG_LIBDIR=$work/none
	configure
	run_programs "$work/build"
	! ldd "$work/build/app_lua" | grep liblua
	;;
*)
	echo "consume.sh: no way $way" >&2
	exit 2
	;;
esac
