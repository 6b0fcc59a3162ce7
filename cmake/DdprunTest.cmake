# ddprun_test(NAME SOURCES a_test.cpp ... LIBRARIES ... LABELS ... TIMEOUT seconds ENVIRONMENT A=b ...)
# One Catch2 program test_NAME; every TEST_CASE becomes a ctest line. Labels: unit, integration, slow, speed, gpu.
# No ';' or '[' in the names of test cases: CMake's lists do not survive them.
function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ddprun_settings Catch2::Catch2WithMain ${ARG_LIBRARIES})
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " TEST_LIST test_${name}_cases
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
  # catch_discover_tests cannot pass on properties that are lists, so those are set in a file of their own.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_properties.cmake)
  set(environment DDPRUN_TEST_BIN=${CMAKE_BINARY_DIR}/bin DDPRUN_TEST_HELPERS=${CMAKE_BINARY_DIR}/tests ${ARG_ENVIRONMENT})
  file(WRITE ${properties_file}
    "foreach(case IN LISTS test_${name}_cases)\n"
    "  set_tests_properties(\"\${case}\" PROPERTIES LABELS \"${ARG_LABELS}\" ENVIRONMENT \"${environment}\")\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()
