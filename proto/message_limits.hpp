// Limits of the control messages. A decoder refuses what is over them; an encoder cuts texts and
// lists to them, so that a message of ours is never refused for its length.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace ddprun::proto {

inline constexpr std::size_t kNameBytesMax = 255;    ///< nodes, agents, addresses, roles, run ids
inline constexpr std::size_t kTextBytesMax = 16384;  ///< reasons, errors, what a worker printed
inline constexpr std::size_t kLineBytesMax = 8192;   ///< one line of a list of lines
inline constexpr std::size_t kLastLinesMax = 512;    ///< of one worker
inline constexpr std::size_t kStackLinesMax = 4096;  ///< of one worker
inline constexpr std::size_t kFeaturesMax = 64;      ///< in a hello
inline constexpr std::size_t kVerdictWorkersMax = 65536;  ///< victims, alike and suspects, each
inline constexpr std::size_t kLeftoversMax = 64;
inline constexpr std::size_t kUnsoundNodesMax = 64;
inline constexpr std::size_t kNoRestartCodesMax = 256;
inline constexpr std::size_t kStatusJobsMax = 1000;
inline constexpr std::size_t kStatusMembersMax = 1000;  ///< of all jobs in one page

inline constexpr std::int64_t kNodesMax = 100'000;
inline constexpr std::int64_t kWorkersPerNodeMax = 16'384;
inline constexpr std::int64_t kWorldSizeMax = kNodesMax * kWorkersPerNodeMax;
static_assert(kWorldSizeMax <= std::numeric_limits<int>::max(), "ranks are ints");

/// How long an agent may be silent. A service gives no other lease.
inline constexpr std::chrono::nanoseconds kLeaseMin = std::chrono::milliseconds(500);
inline constexpr std::chrono::nanoseconds kLeaseMax = std::chrono::hours(1);

/// Longer spans are sent as this one.
inline constexpr std::chrono::nanoseconds kSpanMax = std::chrono::hours(24 * 365 * 25);
static_assert(kSpanMax <= std::chrono::nanoseconds::max() / 10, "ten of them can be added");

}  // namespace ddprun::proto
