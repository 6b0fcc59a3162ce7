// How placement refuses: a text of one to three lines that tells what to do.
#pragma once

#include <boost/system/result.hpp>
#include <boost/throw_exception.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddprun::machine {

/// Without a newline at its end, and without `ddprun:` or an option's name at its beginning.
struct PlacementError {
  PlacementError() = default;
  explicit PlacementError(std::string text) : message(std::move(text)) {}

  std::string message;
};

/// A T, or why it can't be had.
template <class T>
using Placed = boost::system::result<T, PlacementError>;

/// Called by Placed::value() of an error.
BOOST_NORETURN inline void throw_exception_from_error(const PlacementError& error,
                                                      const boost::source_location& where) {
  boost::throw_exception(std::runtime_error(error.message), where);
}

}  // namespace ddprun::machine
