// The control plane's way to return failure: a value, never an exception.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>

namespace ddprun {

/// A T, or an error code of the system, of Asio, or of one of our folders' categories.
template <class T>
using Result = boost::system::result<T>;

using ErrorCode = boost::system::error_code;

}  // namespace ddprun
