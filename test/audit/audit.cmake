# Tests of the tree rather than of a module: see the head of each script.
set(audit_headers ${SMALL_HEADERS})
if(SMALL_LUA_FOUND)
	list(APPEND audit_headers ${SMALL_LUA_HEADERS})
endif()
small_add_script(audit/headers.sh ${PROJECT_SOURCE_DIR} -- ${audit_headers}
	LABELS audit)
small_add_script(audit/readme.sh ${PROJECT_SOURCE_DIR} LABELS audit)
small_add_script(audit/hygiene.sh ${PROJECT_SOURCE_DIR}
	$<TARGET_FILE:small_shared> $<TARGET_FILE:small> LABELS audit)

# audit_exports(name shared static map package)
function(audit_exports name shared static map package)
	add_test(NAME audit_exports_${name}
		COMMAND ${PROJECT_SOURCE_DIR}/test/audit/exports.sh
			$<TARGET_FILE:${shared}> $<TARGET_FILE:${static}> ${map}
			${PROJECT_SOURCE_DIR}/debian/${package}.symbols)
	set_tests_properties(audit_exports_${name} PROPERTIES
		LABELS "nomemcheck;audit")
endfunction()

audit_exports(core small_shared small ${PROJECT_SOURCE_DIR}/small/libsmall.map
	libsmall2)
foreach(version IN LISTS SMALL_LUA_FOUND)
	set(package libsmall-lua${version}-2)
	if(version STREQUAL jit)
		set(package libsmall-luajit2)
	endif()
	audit_exports(lua${version} small_lua${version}_shared
		small_lua${version} ${SMALL_LUA_MAP} ${package})
endforeach()

small_add_script(audit/fastpath.sh ${PROJECT_SOURCE_DIR} LABELS audit)
small_add_script(spin/run LABELS slow audit)

# gdb, on a core.
add_executable(test_held gdb/held.c)
target_compile_options(test_held PRIVATE ${SMALL_WARNINGS})
target_link_libraries(test_held PRIVATE small)
set(held_lua)
if(5.4 IN_LIST SMALL_LUA_FOUND)
	set(held_lua lua)
	target_compile_definitions(test_held PRIVATE HELD_LUA)
	target_link_libraries(test_held PRIVATE small_lua5.4)
endif()
small_add_script(gdb/gdb.sh ${PROJECT_SOURCE_DIR}/small/gdb/small-gdb.py
	$<TARGET_FILE:test_held> ${held_lua} LABELS audit)

# The ways in: pkg/consume.sh.
set(audit_ways submodule)
if(5.4 IN_LIST SMALL_LUA_FOUND)
	list(APPEND audit_ways fetchcontent package pkgconfig vendored)
endif()
foreach(way IN LISTS audit_ways)
	add_test(NAME pkg_${way}
		COMMAND ${PROJECT_SOURCE_DIR}/test/pkg/consume.sh
			${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${way})
	set_tests_properties(pkg_${way} PROPERTIES LABELS "nomemcheck;audit")
endforeach()
