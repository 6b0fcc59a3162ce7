# ddprun_test(NAME SOURCES a_test.cpp ... LIBRARIES ... LABELS ... TIMEOUT seconds ENVIRONMENT A=b ...)
# One Catch2 program test_NAME; every TEST_CASE becomes a ctest line. Labels: unit, integration, slow, speed, release, gpu.
# tests/scripts/lint_test_names.py knows which names CMake's lists do not survive.

# A name that matches no test case is a failure. Catch2 3 does that unasked; Catch2 2 would end with 0.
set(ddprun_catch_options "")
if(Catch2_VERSION VERSION_LESS 3)
  set(ddprun_catch_options --warn NoTests)
endif()

# Of a test, g++ takes 2.6 times as long to optimize what the sanitizers add, and UBSan alone adds a third. The libraries that are
# tested have both.
add_library(ddprun_test_settings INTERFACE)
target_link_libraries(ddprun_test_settings INTERFACE ddprun_settings)
if(DDPRUN_SANITIZE)
  target_compile_options(ddprun_test_settings INTERFACE -O0)
  if(DDPRUN_SANITIZE MATCHES "undefined")
    target_compile_options(ddprun_test_settings INTERFACE -fno-sanitize=undefined)
  endif()
endif()
ddprun_precompiled_header(ddprun_precompiled_for_tests
  SETTINGS ddprun_test_settings ddprun_fmt Catch2::Catch2 HEADERS <catch2/catch.hpp>)

# Registers the cases of PROGRAM as NAME: ...; the lists as for ddprun_test().
function(ddprun_register_cases name program)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(CMAKE_CROSSCOMPILING)  # in an emulator of the processor
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")
  endif()
  # The name of the run has no effect but this: Catch2 tells registrations of one program apart by their arguments.
  catch_discover_tests(${program} TEST_PREFIX "${name}: " TEST_LIST test_${name}_cases
    EXTRA_ARGS --name ${name} ${ddprun_catch_options} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # catch_discover_tests cannot pass on properties that are lists, and Catch2 3's sets a SKIP_RETURN_CODE of its own after
  # ours, so those are set in a file that is read later.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_properties.cmake)
  # The trainer's tests are about the CPU unless they bring a GPU of their own: it may not be the machine's.
  set(gpus "")
  if(name MATCHES "^trainer_" AND NOT "gpu" IN_LIST ARG_LABELS)
    set(gpus CUDA_VISIBLE_DEVICES=)
  endif()
  # XDG_CONFIG_HOME: a secret that the user of this machine has for jobs of their own plays no part.
  set(environment ${gpus} DDPRUN_TEST_BIN=${CMAKE_BINARY_DIR}/bin DDPRUN_TEST_HELPERS=${CMAKE_BINARY_DIR}/tests
    XDG_CONFIG_HOME=${CMAKE_BINARY_DIR}/tests/no_config ${ARG_ENVIRONMENT})
  file(WRITE ${properties_file}
    "foreach(case IN LISTS test_${name}_cases)\n"
    "  set_tests_properties(\"\${case}\" PROPERTIES LABELS \"${ARG_LABELS}\" ENVIRONMENT \"${environment}\" SKIP_RETURN_CODE 77)\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()

function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  set(catch2 Catch2::Catch2WithMain)
  if(DDPRUN_OWN_CATCH2)
    set(catch2 ddprun_catch2_main)
  endif()
  target_link_libraries(test_${name} PRIVATE ddprun_test_settings ${catch2} ${ARG_LIBRARIES})
  ddprun_precompile(test_${name} ddprun_precompiled_for_tests)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if("unit" IN_LIST ARG_LABELS AND NOT "slow" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests test_${name})
  endif()
  # scripts/test builds these in the release build alone, and runs those there that need no GPU.
  if("speed" IN_LIST ARG_LABELS OR "release" IN_LIST ARG_LABELS OR "gpu" IN_LIST ARG_LABELS)
    add_dependencies(release_tests test_${name})
    if(DDPRUN_SANITIZE)
      set_target_properties(test_${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
      return()
    endif()
  endif()
  ddprun_register_cases(${name} test_${name} TIMEOUT "${ARG_TIMEOUT}" LABELS ${ARG_LABELS} ENVIRONMENT ${ARG_ENVIRONMENT})
endfunction()

# ddprun_test_again(NAME OF OTHER LABELS ... TIMEOUT seconds ENVIRONMENT A=b ...)
# The cases of test_OTHER once more as NAME, with other settings: no program of its own has to be built. Where that program
# is left out of the build (see above), so are these.
function(ddprun_test_again name)
  cmake_parse_arguments(ARG "" "OF" "" ${ARGN})
  get_target_property(left_out test_${ARG_OF} EXCLUDE_FROM_ALL)
  if(left_out)
    return()
  endif()
  ddprun_register_cases(${name} test_${ARG_OF} ${ARG_UNPARSED_ARGUMENTS})
endfunction()
