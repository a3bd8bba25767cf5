# Tests that are compiled once per Lua, and those that run the commands.
#
# small_add_lua_test(name [LABELS label ...]): test/lua/name.c for each Lua
# found, as ctest lua<v>_name, with the sandbox over the core that has fault
# points.
foreach(version IN LISTS SMALL_LUA_FOUND)
	small_lua_library(small_lua${version}_test STATIC small_test
		PkgConfig::SMALL_LUA${version})
endforeach()

function(small_add_lua_test name)
	foreach(version IN LISTS SMALL_LUA_FOUND)
		small_add_test(lua${version}_${name} SOURCE lua/${name}.c
			LIBS small_lua${version}_test ${ARGN})
	endforeach()
endfunction()

small_add_lua_test(sandbox)
small_add_lua_test(oom)
small_add_lua_test(whitelist)
small_add_lua_test(stock)
small_add_lua_test(many)
small_add_lua_test(snapshot)
small_add_lua_test(snapshot_refused)
small_add_lua_test(pool LABELS threads)
# TSan holds a signal back until the program calls into its runtime, which a
# script that spins in an uninstrumented Lua never does. Under valgrind a limit
# of 30 ms is over before the script has begun, and no stack is extended while a
# signal is delivered.
small_add_lua_test(hostile LABELS threads notsan nomemcheck)
small_add_lua_test(deadline LABELS threads notsan nomemcheck)
small_add_lua_test(snapshot_timeout LABELS threads notsan nomemcheck)

# small_add_command_test(script): test/lua/script COMMAND STOCK for each Lua
# whose command is built and whose stock interpreter is there.
function(small_add_command_test script)
	foreach(version IN LISTS SMALL_LUA_FOUND)
		find_program(SMALL_STOCK${version} lua${version})
		if(NOT TARGET small-lua${version} OR
		   NOT SMALL_STOCK${version})
			continue()
		endif()
		add_test(NAME lua${version}_${script} COMMAND
			${PROJECT_SOURCE_DIR}/test/lua/${script}
			$<TARGET_FILE:small-lua${version}>
			${SMALL_STOCK${version}})
		set_tests_properties(lua${version}_${script} PROPERTIES
			LABELS nomemcheck)
	endforeach()
endfunction()

small_add_command_test(command.sh)
small_add_command_test(programs.sh)
