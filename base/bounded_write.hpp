// Writes to a descriptor that another program made, without waiting for its reader beyond a limit.
#pragma once

#include <chrono>
#include <string_view>

namespace ddprun {

/// Writes until all is written or the limit has passed; true: all is. False: errno says why, and
/// ETIMEDOUT that it was the limit. The descriptor may be a blocking one, and its reader may have
/// stopped; it is left as it is: a terminal or pipe is opened once more, for writes that do not
/// wait.
bool write_within(int fd, std::string_view bytes, std::chrono::milliseconds limit);

}  // namespace ddprun
