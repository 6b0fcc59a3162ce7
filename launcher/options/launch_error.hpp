// How the launcher says no: one message with its remedy, and the exit code that goes with it.
#pragma once

#include <boost/system/result.hpp>
#include <boost/throw_exception.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/exit_codes.hpp"
#include "base/printable.hpp"

namespace ddprun::launcher {

/// Printed as `ddprun: MESSAGE`. The message is one line that tells what to do. A
/// constructor instead of an aggregate: LaunchResult<int> must not mistake a plain number for an
/// error.
struct LaunchError {
  LaunchError() = default;
  LaunchError(int code, std::string_view text) : exit_code(code), message(printable(text)) {}

  int exit_code = kExitUsage;
  std::string message;
  std::string more;  ///< further lines, each behind a newline
};

/// A T, or why nothing can be started.
template <class T>
using LaunchResult = boost::system::result<T, LaunchError>;

inline LaunchError usage_error(std::string_view message) { return {kExitUsage, message}; }

/// Called by LaunchResult::value() of an error.
BOOST_NORETURN inline void throw_exception_from_error(const LaunchError& error,
                                                      const boost::source_location& where) {
  boost::throw_exception(std::runtime_error(error.message), where);
}

}  // namespace ddprun::launcher
