// Catch2 2, compiled with the tests: the distribution's static library of it needs the C++ library
// of the distribution's compiler.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
