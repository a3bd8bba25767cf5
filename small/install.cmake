# What is installed, and how others find it: a CMake package with components
# (core, lua5.1, lua5.3, lua5.4, luajit) and a pkg-config file a library.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(small_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/small)

# small_install(export component target ...): libraries, their export file.
function(small_install export)
	install(TARGETS ${ARGN} EXPORT ${export}
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
		INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	install(EXPORT ${export} NAMESPACE small:: FILE ${export}.cmake
		DESTINATION ${small_package_dir})
endfunction()

# small_pc(name description requires private): a pkg-config file that moves
# with the tree, unless an install folder was given as an absolute path.
function(small_pc name description requires private)
	foreach(dir LIBDIR INCLUDEDIR)
		set(${dir} ${CMAKE_INSTALL_${dir}})
		if(NOT IS_ABSOLUTE "${${dir}}")
			set(${dir} "\${prefix}/${${dir}}")
		endif()
	endforeach()
	set(PREFIX ${CMAKE_INSTALL_PREFIX})
	if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
		file(RELATIVE_PATH up
			/${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
		set(PREFIX "\${pcfiledir}/${up}")
	endif()
	configure_file(${PROJECT_SOURCE_DIR}/small/small.pc.in
		${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${name}.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

set_target_properties(small PROPERTIES EXPORT_NAME small)
set_target_properties(small_shared PROPERTIES EXPORT_NAME shared)
small_install(small-core small small_shared)
small_pc(small "${PROJECT_DESCRIPTION}" "" "-pthread")
foreach(header IN LISTS SMALL_HEADERS)
	file(RELATIVE_PATH header_dir ${PROJECT_SOURCE_DIR} ${header})
	get_filename_component(header_dir ${header_dir} DIRECTORY)
	install(FILES ${header}
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${header_dir})
endforeach()

# gdb loads what is named after the library's file.
install(FILES ${PROJECT_SOURCE_DIR}/small/gdb/small-gdb.py
	DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR}
	RENAME libsmall.so.2.0.0-gdb.py)

# Manual pages: small(7) and small-lua(1) by hand, the others from headers.
set(small_pages)
function(small_man header)
	get_filename_component(page ${header} NAME_WE)
	set(page ${PROJECT_BINARY_DIR}/man/small_${page}.3)
	add_custom_command(OUTPUT ${page}
		COMMAND ${SMALL_AWK} -v version=${PROJECT_VERSION}
			-f ${PROJECT_SOURCE_DIR}/small/man/header.awk
			${header} >${page}
		DEPENDS ${header} ${PROJECT_SOURCE_DIR}/small/man/header.awk)
	set(small_pages ${small_pages} ${page} PARENT_SCOPE)
	install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
endfunction()

find_program(SMALL_AWK awk REQUIRED)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
foreach(header IN LISTS SMALL_HEADERS)
	small_man(${header})
endforeach()
if(SMALL_LUA_FOUND)
	foreach(header IN LISTS SMALL_LUA_HEADERS)
		small_man(${header})
	endforeach()
endif()
add_custom_target(small_man ALL DEPENDS ${small_pages})
install(FILES ${PROJECT_SOURCE_DIR}/small/man/small.7
	DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)

foreach(version IN LISTS SMALL_LUA_FOUND)
	set_target_properties(small_lua${version} PROPERTIES
		EXPORT_NAME lua${version})
	set_target_properties(small_lua${version}_shared PROPERTIES
		EXPORT_NAME lua${version}_shared)
	small_install(small-lua${version} small_lua${version}
		small_lua${version}_shared)
	small_pc(small-lua${version}
		"Lua ${version} under a hard limit" "small lua${version}" "")
	if(TARGET small-lua${version})
		install(TARGETS small-lua${version})
		file(WRITE ${PROJECT_BINARY_DIR}/man/small-lua${version}.1
			".so man1/small-lua.1\n")
		install(FILES ${PROJECT_BINARY_DIR}/man/small-lua${version}.1
			DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	endif()
endforeach()
if(SMALL_LUA_FOUND)
	install(FILES ${SMALL_LUA_HEADERS}
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/small/lua)
endif()
if(SMALL_BUILD_PERF)
	install(FILES ${PROJECT_SOURCE_DIR}/small/man/small-perf.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(TARGET small-lua5.4)
	install(FILES ${PROJECT_SOURCE_DIR}/small/man/small-lua.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES ${PROJECT_BINARY_DIR}/small-lua
		DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(small/small-config.cmake.in
	${PROJECT_BINARY_DIR}/small-config.cmake
	INSTALL_DESTINATION ${small_package_dir})
write_basic_package_version_file(
	${PROJECT_BINARY_DIR}/small-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES
	${PROJECT_BINARY_DIR}/small-config.cmake
	${PROJECT_BINARY_DIR}/small-config-version.cmake
	DESTINATION ${small_package_dir})
