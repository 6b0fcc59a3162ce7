# How our libraries, programs and tests are declared; every target of the project goes through these functions.

# Warnings, sanitizers and the include root, for every target of ours.
add_library(ddprun_settings INTERFACE)
target_include_directories(ddprun_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_features(ddprun_settings INTERFACE cxx_std_20)
target_compile_options(ddprun_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${DDPRUN_WERROR}>>:-Werror>)
# Folders with DDPRUN_HOT spend time in their own code. The others wait for the kernel: g++ optimizes them for size in three
# quarters of the time, and starts read less from disk.
define_property(TARGET PROPERTY DDPRUN_HOT INITIALIZE_FROM_VARIABLE DDPRUN_HOT)
target_compile_options(ddprun_settings INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>,$<NOT:$<BOOL:$<TARGET_PROPERTY:DDPRUN_HOT>>>>:-Os>)
# Programs that are given away: hardened as distributions do it, and without the paths of the machine that built them.
target_compile_options(ddprun_settings INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
    -fstack-clash-protection -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
target_link_options(ddprun_settings INTERFACE -Wl,-z,relro,-z,now)
if(DDPRUN_FAST_LINK)  # a test program in a quarter of the time that GNU ld takes
  include(CheckLinkerFlag)
  foreach(linker mold lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} DDPRUN_LINKS_WITH_${linker})
    if(DDPRUN_LINKS_WITH_${linker})
      target_link_options(ddprun_settings INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O3 g++ 12 to 14 see uninitialized members in a variant's alternatives that are not active, and g++ 12 overlaps
  # inside its own std::string (GCC bug 105651). The other presets watch for the real mistakes.
  target_compile_options(ddprun_settings INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
endif()
if(DDPRUN_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ forgets that a precompiled header is the system's, and at -O3 reports what it suspects inside std::string (GCC bug 105651
  # and its like). The sanitized builds keep these warnings.
  target_compile_options(ddprun_settings INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
endif()
# Of Asio, Boost and spdlog; every target has them, so that one precompiled header serves all.
target_compile_definitions(ddprun_settings INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ALL_NO_LIB SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB)
if(DDPRUN_SANITIZE STREQUAL "thread")
  # TSan knows no fences; Asio's contexts are run by one thread each here.
  target_compile_definitions(ddprun_settings INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
if(DDPRUN_SANITIZE)
  target_compile_options(ddprun_settings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DDPRUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(ddprun_settings INTERFACE -fsanitize=${DDPRUN_SANITIZE})
  # Together a quarter of the time that g++ takes for a sanitized build. Of these ASan sees a null pointer that is used and a
  # bound that is passed. The fuzz preset keeps all four, because its parsers read what others wrote.
  if(DDPRUN_SANITIZE MATCHES "address.*undefined" AND NOT DDPRUN_FUZZ)
    target_compile_options(ddprun_settings INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,alignment,vptr,object-size>)
  endif()
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A source file that another one includes is a header to g++, and its anonymous types then look like a mistake.
  target_compile_options(ddprun_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(DDPRUN_FUZZ)
  target_compile_options(ddprun_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

# Third-party code, all of it linked in: only libc is shared (a program that starts under any LD_LIBRARY_PATH). Optimized for
# size, fmt would call libm, and to load that costs each start 7 %.
set(DDPRUN_HOT ON)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 11)
  add_library(ddprun_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_impl.cpp)
  target_include_directories(ddprun_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(ddprun_fmt PRIVATE ddprun_settings)
  set_target_properties(ddprun_fmt PROPERTIES UNITY_BUILD OFF POSITION_INDEPENDENT_CODE ON)  # for train's plugin, too
else()
  add_library(ddprun_fmt INTERFACE)
  target_link_libraries(ddprun_fmt INTERFACE fmt::fmt-header-only)
endif()
add_library(ddprun_spdlog STATIC ${PROJECT_SOURCE_DIR}/cmake/spdlog_impl.cpp)
# Not spdlog's own target: it would bring the shared libfmt along.
target_include_directories(ddprun_spdlog SYSTEM PUBLIC
  $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(ddprun_spdlog PUBLIC ddprun_settings ddprun_fmt Threads::Threads)
set(DDPRUN_HOT OFF)
add_library(ddprun_json INTERFACE)
target_link_libraries(ddprun_json INTERFACE nlohmann_json::nlohmann_json)
add_library(ddprun_boost INTERFACE)
target_link_libraries(ddprun_boost INTERFACE Boost::headers)

ddprun_precompiled_header(ddprun_precompiled SETTINGS ddprun_settings ddprun_fmt)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(DDPRUN_HOT ON)
  ddprun_precompiled_header(ddprun_precompiled_hot SETTINGS ddprun_settings ddprun_fmt)
  set(DDPRUN_HOT OFF)
endif()

# ddprun_library(NAME SOURCES a.cpp ... HEADERS a.hpp ... LIBRARIES ddprun::x ...)
# A static library ddprun_NAME with the alias ddprun::NAME; its headers are checked to compile alone.
function(ddprun_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  set(target ddprun_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${ARG_PRIVATE_LIBRARIES})
    ddprun_precompile(${target} ddprun_precompiled)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(ddprun::${name} ALIAS ${target})
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_link_libraries(${target} ${scope} ddprun_settings ${ARG_LIBRARIES})
endfunction()

# ddprun_program(NAME SOURCES main.cpp LIBRARIES ...): a program in build/PRESET/bin, with libstdc++ and libgcc linked in.
function(ddprun_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ddprun_settings ${ARG_LIBRARIES})
  ddprun_precompile(${name} ddprun_precompiled)
  if(NOT DDPRUN_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# ddprun_texts(NAME PAGE SECTION): the man page PAGE.SECTION and the completions of the program NAME, made by itself, in
# share/ of its build folder. The files are named as the page is: a completion named train would be used for every program of that
# name. Tcsh has no folder of its own for completions; its users source the file.
function(ddprun_texts name page section)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/share)
  file(MAKE_DIRECTORY ${made})
  add_custom_command(
    OUTPUT ${made}/${page}.${section} ${made}/${page}.bash ${made}/_${page} ${made}/${page}.fish ${made}/${name}.tcsh
    COMMAND ${name} --man > ${made}/${page}.${section}
    COMMAND ${name} --completion=bash > ${made}/${page}.bash
    COMMAND ${name} --completion=zsh > ${made}/_${page}
    COMMAND ${name} --completion=fish > ${made}/${page}.fish
    COMMAND ${name} --completion=tcsh > ${made}/${name}.tcsh
    DEPENDS ${name}
    VERBATIM)
  add_custom_target(${name}_share ALL DEPENDS ${made}/${page}.${section})
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${made}/${page}.${section} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  install(FILES ${made}/${page}.bash DESTINATION ${share}/bash-completion/completions RENAME ${page})
  install(FILES ${made}/_${page} DESTINATION ${share}/zsh/site-functions)
  install(FILES ${made}/${page}.fish DESTINATION ${share}/fish/vendor_completions.d)
  install(FILES ${made}/${name}.tcsh DESTINATION ${share}/ddprun)
endfunction()
