# The Lua parts: one library and one command per interpreter.
#
# small_add_lua(<name> <lua target>) builds the library `name`, static, for
# any Lua target: a system one, a vendored one, a patched one. The target has
# to carry lua.h's directory and what has to be linked.
#
# SMALL_LUA lists the system interpreters to build for. Each one found gives
# targets small_lua<v> (small::lua<v>), small_lua<v>_shared and, at top level,
# the command small-lua<v>; SMALL_LUA_FOUND lists their versions.

# luamem needs no Lua header: it stands in the core (SMALL_SOURCES).
set(SMALL_LUA_SOURCES
	${PROJECT_SOURCE_DIR}/small/lua/sandbox.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_base.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_call.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_co.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_handler.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_host.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_libs.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_load.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_pool.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_random.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_snapshot.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_table.c
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_time.c
)
set(SMALL_LUA_HEADERS
	${PROJECT_SOURCE_DIR}/small/lua/sandbox.h
	${PROJECT_SOURCE_DIR}/small/lua/sandbox_pool.h
)
set(SMALL_LUA_COMMAND ${PROJECT_SOURCE_DIR}/small/lua/small-lua.c)
set(SMALL_LUA_MAP ${PROJECT_SOURCE_DIR}/small/lua/libsmall-lua.map)
# small_add_lua() is called from folders that see none of these variables.
set_property(GLOBAL PROPERTY SMALL_LUA_SOURCES ${SMALL_LUA_SOURCES})

# small_lua_library(target kind core lua): the same, over a core of choice.
function(small_lua_library target kind core lua)
	get_property(sources GLOBAL PROPERTY SMALL_LUA_SOURCES)
	small_library(${target} ${kind} ${sources})
	target_link_libraries(${target} PUBLIC ${core} ${lua})
	# Lua is called all the time, and loaded in any case.
	target_compile_options(${target} PRIVATE -fno-plt)
endfunction()

function(small_add_lua name lua)
	small_lua_library(${name} STATIC small ${lua})
endfunction()

# The command links liblua as a shared library, which Debian's C modules
# need: they name none themselves.
function(small_lua_command version)
	add_executable(small-lua${version} ${SMALL_LUA_COMMAND})
	set_target_properties(small-lua${version} PROPERTIES
		C_STANDARD 11 C_EXTENSIONS ON)
	target_compile_options(small-lua${version} PRIVATE ${SMALL_WARNINGS})
	target_link_libraries(small-lua${version} PRIVATE small_lua${version})
	if(version STREQUAL 5.4)
		add_custom_command(TARGET small-lua5.4 POST_BUILD
			COMMAND ${CMAKE_COMMAND} -E create_symlink
				small-lua5.4 small-lua)
	endif()
endfunction()

# small_lua_system(version): as listed above, for a Lua that pkg-config knows.
function(small_lua_system version)
	set(lua PkgConfig::SMALL_LUA${version})
	set(target small_lua${version})

	small_add_lua(${target} ${lua})
	add_library(small::lua${version} ALIAS ${target})
	set_target_properties(${target} PROPERTIES
		OUTPUT_NAME small-lua${version})
	small_lua_library(${target}_shared SHARED small_shared ${lua})
	add_library(small::lua${version}_shared ALIAS ${target}_shared)
	small_versioned(${target}_shared small-lua${version} ${SMALL_LUA_MAP})
	if(SMALL_TOP)
		small_lua_command(${version})
	endif()
endfunction()

set(SMALL_LUA_FOUND)
set(small_lua_wanted ${SMALL_LUA})
set(small_lua_required REQUIRED)
if(SMALL_LUA STREQUAL all)
	set(small_lua_wanted 5.1 5.3 5.4 jit)
	set(small_lua_required QUIET)
endif()
list(TRANSFORM small_lua_wanted REPLACE "^luajit$" jit)
if(small_lua_wanted)
	find_package(PkgConfig ${small_lua_required})
endif()
foreach(version IN LISTS small_lua_wanted)
	if(PKG_CONFIG_FOUND)
		pkg_check_modules(SMALL_LUA${version} ${small_lua_required}
			IMPORTED_TARGET lua${version})
	endif()
	if(SMALL_LUA${version}_FOUND)
		list(APPEND SMALL_LUA_FOUND ${version})
		small_lua_system(${version})
	endif()
endforeach()
