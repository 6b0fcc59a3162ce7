# Tests in Python. Every test method of a test_*.py becomes a ctest line of its own, but for classes with a costly
# setUpClass (WHOLE).
find_package(Python3 3.9 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "ddprun: no python3, so without the tests of the scripts and the lints (scripts/install-deps --tests)")
endif()

# Registers one run of unittest, of `cases` test methods, with the arguments of ddprun_python_tests. unittest ends with 0
# even if it skipped everything: by the expressions ctest shows such a run as skipped. A run of which a part was skipped
# passes. A class that is skipped in its setUpClass counts as one skip and no test.
function(ddprun_unittest name what cases)
  add_test(NAME ${name} COMMAND Python3::Interpreter -B -m unittest -v ${what} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "DDPRUN_TEST_BUILD=${CMAKE_BINARY_DIR};DDPRUN_TEST_BIN=${CMAKE_BINARY_DIR}/bin"
    SKIP_REGULAR_EXPRESSION
      "Ran [0-9]+ tests? in [^\n]*\n\nOK [(]skipped=${cases}[)];Ran 0 tests in [^\n]*\n\nOK [(]skipped=")
  if(ARG_LOCK)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${ARG_LOCK})
  endif()
endfunction()

# ddprun_python_tests(FILE [WHOLE] LABELS ... TIMEOUT seconds LOCK name): registers each method of FILE.py, or with WHOLE
# each class, so that its setUpClass runs once. Of tests with the same lock one runs at a time.
function(ddprun_python_tests file)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT;LOCK" "LABELS" ${ARGN})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${file}.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  string(REGEX REPLACE "^test_" "" prefix ${file})
  file(STRINGS ${source} lines REGEX "^(class|    def test_)")
  set(class "")
  set(classes "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^class ([A-Za-z0-9_]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def (test_[a-z0-9_]+)")
      set(method ${CMAKE_MATCH_1})
      string(REGEX REPLACE "^test_" "" sentence ${method})
      string(REPLACE "_" " " sentence ${sentence})
      if(ARG_WHOLE)
        list(APPEND classes ${class})  # once for each of its methods
      else()
        ddprun_unittest("${prefix}: ${sentence}" ${file}.${class}.${method} 1)
      endif()
    endif()
  endforeach()
  set(distinct ${classes})
  list(REMOVE_DUPLICATES distinct)
  foreach(class IN LISTS distinct)
    set(of_class ${classes})
    list(FILTER of_class INCLUDE REGEX "^${class}$")
    list(LENGTH of_class cases)
    ddprun_unittest("${prefix}: all cases of ${class}" ${file}.${class} ${cases})
  endforeach()
endfunction()
