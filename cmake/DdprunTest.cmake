# ddprun_test(NAME SOURCES a_test.cpp ... LIBRARIES ... LABELS ... TIMEOUT seconds ENVIRONMENT A=b ...)
# One Catch2 program test_NAME; every TEST_CASE becomes a ctest line. Labels: unit, integration, slow, speed, gpu.
function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE ddprun_settings Catch2::Catch2WithMain ${ARG_LIBRARIES})
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: "
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77
               ENVIRONMENT "${ARG_ENVIRONMENT};DDPRUN_TEST_BIN=${CMAKE_BINARY_DIR}/bin;DDPRUN_TEST_HELPERS=${CMAKE_BINARY_DIR}/tests")
endfunction()
