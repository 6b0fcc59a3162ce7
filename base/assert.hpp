// Checks of our own invariants, on in every build. Never for bytes from outside: those are parsed
// or refused.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Aborts with file, line and `what` when `condition` does not hold.
#define DDPRUN_ASSERT(condition, what)                                                  \
  do {                                                                                  \
    if (!(condition)) [[unlikely]] {                                                    \
      std::fprintf(stderr, "%s:%d: bug in ddprun: %s (%s)\n", __FILE__, __LINE__, what, \
                   #condition);                                                         \
      std::abort();                                                                     \
    }                                                                                   \
  } while (false)
