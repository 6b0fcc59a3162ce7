// The control plane's way to return failure: a value, never an exception.
#pragma once

#include <cerrno>

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>

namespace ddprun {

/// A T, or an error code of the system, of Asio, or of one of our folders' categories.
template <class T>
using Result = boost::system::result<T>;

using ErrorCode = boost::system::error_code;

/// The error of the system call that has just failed.
inline ErrorCode last_system_error() { return {errno, boost::system::system_category()}; }

}  // namespace ddprun
