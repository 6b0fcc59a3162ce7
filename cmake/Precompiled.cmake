# The headers that most files begin with are parsed once for the libraries and once for the tests, which have other options: a
# third of the time of a build. The dev preset goes without, so that a file that lacks an include of its own is found there.
option(DDPRUN_PRECOMPILE "Parse the commonest headers once" OFF)
if(DDPRUN_PRECOMPILE AND DDPRUN_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache finds the header in what is preprocessed
endif()
set(CMAKE_PCH_WARN_INVALID OFF)  # a target with options of its own parses them itself

# ddprun_precompiled_header(OWNER SETTINGS targets... HEADERS more...): the target whose headers others take.
function(ddprun_precompiled_header owner)
  cmake_parse_arguments(ARG "" "" "SETTINGS;HEADERS" ${ARGN})
  if(NOT DDPRUN_PRECOMPILE)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(${owner} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(${owner} PRIVATE ${ARG_SETTINGS})
  target_precompile_headers(${owner} PRIVATE
    <algorithm> <array> <cerrno> <charconv> <chrono> <cstddef> <cstdint> <cstring> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>
    <fcntl.h> <sys/socket.h> <sys/stat.h> <unistd.h>
    ${PROJECT_SOURCE_DIR}/cmake/fmt_extern.hpp
    ${ARG_HEADERS})
endfunction()

function(ddprun_precompile target owner)
  if(DDPRUN_PRECOMPILE)
    if(DDPRUN_HOT AND TARGET ${owner}_hot)
      string(APPEND owner _hot)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()
