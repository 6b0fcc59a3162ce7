# ddprun_test(NAME SOURCES a_test.cpp ... LIBRARIES ... LABELS ... TIMEOUT seconds ENVIRONMENT A=b ...)
# One Catch2 program test_NAME; every TEST_CASE becomes a ctest line. Labels: unit, integration, slow, speed, gpu.
# tests/scripts/lint_test_names.py knows which names CMake's lists do not survive.

# A name that matches no test case is a failure. Catch2 3 does that unasked; Catch2 2 would end with 0.
set(ddprun_catch_options "")
if(Catch2_VERSION VERSION_LESS 3)
  set(ddprun_catch_options EXTRA_ARGS --warn NoTests)
endif()

function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ddprun_settings Catch2::Catch2WithMain ${ARG_LIBRARIES})
  # Of a test, g++ takes 2.6 times as long to optimize what the sanitizers add.
  if(DDPRUN_SANITIZE)
    target_compile_options(test_${name} PRIVATE -O0)
  endif()
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " TEST_LIST test_${name}_cases ${ddprun_catch_options}
    PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # What scripts/test builds of the release preset.
  if("speed" IN_LIST ARG_LABELS OR "release" IN_LIST ARG_LABELS)
    add_dependencies(release_tests test_${name})
  endif()
  # catch_discover_tests cannot pass on properties that are lists, and Catch2 3's sets a SKIP_RETURN_CODE of its own after
  # ours, so those are set in a file that is read later.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_properties.cmake)
  set(environment DDPRUN_TEST_BIN=${CMAKE_BINARY_DIR}/bin DDPRUN_TEST_HELPERS=${CMAKE_BINARY_DIR}/tests ${ARG_ENVIRONMENT})
  file(WRITE ${properties_file}
    "foreach(case IN LISTS test_${name}_cases)\n"
    "  set_tests_properties(\"\${case}\" PROPERTIES LABELS \"${ARG_LABELS}\" ENVIRONMENT \"${environment}\" SKIP_RETURN_CODE 77)\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()
