// A visible skip: Catch2 2 has none, so the test program ends with the code that ctest shows as
// "Skipped". (Catch2 3 has one of its own since 3.3; this works with all of them.)
#pragma once

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ddprun::test {

/// What `skip` throws. Not an std::exception: no test is to catch it by accident.
struct Skipped {
  std::string why;
};

/// Ends the test case, and with it the program, which ctest runs once for each TEST_CASE: first the
/// objects of the test case are destroyed, so that its temporary folders are removed.
[[noreturn]] inline void skip(const std::string& why) { throw Skipped{why}; }

}  // namespace ddprun::test

// Catch2 comes here with what left a test case.
CATCH_TRANSLATE_EXCEPTION(ddprun::test::Skipped const& skipped) {
  std::printf("SKIPPED: %s\n", skipped.why.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}
